"""A small commons in real processes on free loopback ports: log, two witnesses, commons, mirror, one member."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.ports import free_port

ROLES = {"w0": "witness", "w1": "witness", "log": "log", "commons": "commons", "mirror": "mirror"}
TEAM = "mesh:coding-agent@beta"


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Mesh:
    """Folders, ports and processes, by the names of ROLES."""

    root: Path
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ROLES})
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "interlock", "mesh", *words]

    def env(self) -> dict[str, str]:
        return {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK_")} | {"HOME": str(self.root)}

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.command(*words), env=self.env(), **pipes)  # type: ignore[call-overload,no-any-return]

    def finish(self, process: subprocess.Popen[bytes]) -> Done:
        try:
            out, err = process.communicate(timeout=120)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return Done(process.returncode, out.decode(), err.decode())

    def __call__(self, *words: str, code: int = 0) -> Done:
        done = self.finish(self.begin(*words))
        assert done.code == code, done
        return done

    def set_up(self) -> None:
        """Every folder but the mirror's, which needs a commons that is there."""
        lines = []
        for name, words in (("log", ["log.example/packs"]), ("w0", ["w0.example"]), ("w1", ["w1.example"])):
            told = self("setup", "--role", ROLES[name], "--dir", str(self.root / name), "--name", *words).out
            mark = "its line in a log policy: "
            told_lines = [line.removeprefix(mark) for line in told.splitlines() if line.startswith(mark)]
            lines += [line.replace(" URL", f" {self.url(name)}") for line in told_lines]
        lines += ["group both all w0.example w1.example", "quorum both"]
        policy = self.root / "log-policy.txt"
        policy.write_text("\n".join(lines) + "\n")
        for name in ("log", "w0", "w1"):
            (self.root / name / "log-policy.txt").write_text(policy.read_text())
        held = []
        for name in ("ada", "ben"):
            phrase = self.root / f"{name}.phrase"
            phrase.touch(0o600)
            phrase.write_text(secrets.token_hex(8))
            held += ["--holder", f"{name}={phrase}"]
        words = ["--log-url", self.url("log"), "--log-policy", str(policy)]
        self("setup", "--role", "commons", "--dir", str(self.root / "commons"), *words, *held)
        token = self.root / "commons" / "log-token"
        token.touch(0o600)
        token.write_text(self.token)
        words += ["--upstream", self.url("commons"), "--root", str(self.first_root)]
        self("setup", "--role", "mirror", "--dir", str(self.root / "mirror"), *words)
        config = f'[mesh]\nhome = "home"\ncommons = "{self.url("mirror")}"\n'
        (self.root / "member.toml").write_text(config)

    @property
    def token(self) -> str:
        return (self.root / "log" / "token").read_text()

    @property
    def first_root(self) -> Path:
        return self.root / "commons" / "public" / "metadata" / "1.root.json"

    def serving(self, name: str, *words: str) -> list[str]:
        return ["serve", "--role", ROLES[name], "--dir", str(self.root / name), *words]

    def start(self, *names: str) -> None:
        """Serve, each on its port, until it answers."""
        for name in names:
            with (self.root / f"{name}.err").open("ab") as err:
                words = self.serving(name, "--port", str(self.ports[name]), "--log-format", "json")
                self.running[name] = subprocess.Popen(
                    self.command(*words), env=self.env(), stdin=subprocess.DEVNULL, stderr=err
                )
        for name in names:
            self._wait(name)

    def _wait(self, name: str) -> None:
        until = time.monotonic() + 30
        while True:
            try:
                httpx.get(self.url(name) + "/", timeout=5, trust_env=False)
                return
            except httpx.HTTPError:
                assert self.running[name].poll() is None, self.errors(name)
                assert time.monotonic() < until, f"{name} does not come up"
                time.sleep(0.05)

    def wait_for_copy(self) -> None:
        """Until the mirror has made its first copy; before that it has nothing to serve."""
        until = time.monotonic() + 30
        while httpx.get(self.url("mirror") + "/metadata/timestamp.json", timeout=5, trust_env=False).status_code != 200:
            assert time.monotonic() < until, self.errors("mirror")
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.terminate()
        try:
            assert process.wait(10) == 0, self.errors(name)
        finally:
            process.kill()
            process.wait()

    def errors(self, name: str) -> str:
        return (self.root / f"{name}.err").read_text()

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def publish(self, version: int, *more: str) -> subprocess.Popen[bytes]:
        pack = ["--version", str(version), "--author", "A", "--sign-off", "A <a@example.org>", "--no-corpus"]
        place = ["--ring", "beta", "--dir", str(self.root / "commons")]
        return self.begin("publish", "builtin:coding-agent", *pack, *place, *more)

    def member(self, command: str, *words: str) -> list[str]:
        return [command, "--config", str(self.root / "member.toml"), *words]
