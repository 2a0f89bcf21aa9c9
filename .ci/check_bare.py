"""In a clean environment with the wheels alone: the guard works, imports nothing third-party, and starts quickly."""

import importlib.metadata
import importlib.util
import statistics
import subprocess
import sys
import time

LIMIT_MS = 60


def start_ms(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    installed = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()}
    extra = installed - {"interlock", "interlock-native", "pip", "setuptools"}
    assert not extra, f"not a clean environment: {extra}"

    import interlock
    from interlock.detectors import network_egress_guard, pii_redaction_guard

    loaded = {name.split(".")[0] for name in sys.modules}
    assert "site-packages" in (interlock.__file__ or ""), "the source tree was imported, not the wheel"
    assert not any(name.startswith(("interlock.node", "interlock.dap", "interlock.commons")) for name in sys.modules)
    assert not loaded & {"httpx", "cryptography", "nacl", "tuf", "yaml"}

    interlock.install(rules=[pii_redaction_guard(), network_egress_guard(allowed_hosts=["api.internal"])])
    sent = interlock.enforce_tool_call(
        "http_post", {"url": "https://api.internal/n", "body": "card 4111 1111 1111 1111"}
    )
    assert sent["body"] == "card [REDACTED CREDIT_CARD]", sent

    interlock.install(policy="builtin:coding-agent")
    try:
        interlock.enforce_tool_call("Bash", {"command": "rm -rf /"})
    except interlock.Blocked as e:
        print("blocked:", e)
    else:
        raise AssertionError("rm -rf / was not blocked")

    if importlib.util.find_spec("interlock_native"):
        import interlock_native

        from interlock.native.availability import ABI_VERSION

        assert interlock_native.abi_version() == ABI_VERSION
        print("interlock-native", interlock_native.__version__, "imports")

    for command, code in (("policy test builtin:coding-agent", 0), ("mesh demo", 2), ("mesh status", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *command.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        if code:
            assert done.stderr.count("\n") == 1, done.stderr
            print(f"{command}: {done.stderr.strip()}")

    rounds = [(start_ms("import interlock"), start_ms("pass")) for _ in range(15)]
    over = statistics.median(a for a, _ in rounds) - statistics.median(b for _, b in rounds)
    print(f"import interlock: {over:.0f} ms over bare Python (limit {LIMIT_MS})")
    assert over < LIMIT_MS


main()
