//! Programs that run the command in their arguments, as data: which options take a value, what stands before it.

/// What is known of one such program.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// Letters of options that take a value.
    pub short: &'static str,
    /// Long options that take a value.
    pub long: &'static [&'static str],
    /// Operands before the command.
    pub skip: usize,
    /// Whether `A=1` may stand before the command.
    pub assigns: bool,
    /// Subcommands of which one must come first (`uv run`); one empty word: no command follows.
    pub words: &'static [&'static str],
    /// Options whose value is shell code.
    pub code: &'static [&'static str],
    /// Whether the command's words are joined and read by a shell.
    pub joined: bool,
    /// An intent of the wrapper itself.
    pub finding: &'static str,
    /// Options that start a shell.
    pub shells: &'static [&'static str],
}

const W: Wrapper = Wrapper {
    short: "",
    long: &[],
    skip: 0,
    assigns: false,
    words: &[],
    code: &[],
    joined: false,
    finding: "",
    shells: &[],
};
const EXEC: Wrapper = Wrapper {
    words: &["exec"],
    ..W
};
const RUN: Wrapper = Wrapper {
    words: &["run"],
    ..W
};
const SKIP: Wrapper = Wrapper { skip: 1, ..W };
const ESCALATES: &str = "privilege.escalate";

#[rustfmt::skip]
const SUDO_LONG: &[&str] = &[
    "--user", "--group", "--host", "--prompt", "--chdir", "--chroot", "--role", "--type", "--close-from",
    "--other-user", "--command-timeout",
];

/// Options of docker and its like that take a value.
#[rustfmt::skip]
pub const DOCKER_LONG: &[&str] = &[
    "--name", "--volume", "--mount", "--env", "--env-file", "--network", "--net", "--publish", "--user", "--workdir",
    "--entrypoint", "--hostname", "--label", "--memory", "--cpus", "--pid", "--ipc", "--gpus", "--device", "--cap-add",
    "--cap-drop", "--security-opt", "--restart", "--platform", "--add-host", "--dns", "--tmpfs", "--shm-size",
    "--ulimit", "--userns", "--uts", "--log-driver", "--link", "--runtime", "--pull", "--volumes-from", "--ip",
    "--mac-address", "--context", "--host", "--config", "--log-level", "--file", "--project-name", "--profile",
    "--index", "--detach-keys",
];

#[rustfmt::skip]
const TABLE: &[(&str, Wrapper)] = &[
    ("asdf", EXEC),
    ("aws-vault", Wrapper { words: &["exec"], skip: 1, ..W }),
    ("bundle", EXEC),
    ("bunx", W),
    ("busybox", W),
    ("caffeinate", Wrapper { short: "tw", ..W }),
    ("cgexec", Wrapper { short: "g", ..W }),
    ("chronic", W),
    ("chroot", Wrapper { long: &["--userspec", "--groups"], skip: 1, ..W }),
    ("chrt", Wrapper { short: "TPD", skip: 1, ..W }),
    ("conda", Wrapper { short: "np", long: &["--name", "--prefix"], words: &["run"], ..W }),
    ("coproc", W),
    ("cpulimit", Wrapper { short: "lpeP", ..W }),
    ("dbus-run-session", W),
    ("direnv", Wrapper { words: &["exec"], skip: 1, ..W }),
    ("doas", Wrapper { short: "uC", finding: ESCALATES, shells: &["-s"], assigns: true, ..W }),
    ("dotenv", Wrapper { short: "fe", ..W }),
    ("entr", W),
    ("env", Wrapper { short: "uCSP", long: &["--unset", "--chdir", "--split-string", "--argv0"], assigns: true,
        code: &["-S", "--split-string"], ..W }),
    ("fakechroot", W),
    ("fakeroot", Wrapper { short: "lsibu", ..W }),
    ("firejail", W),
    ("flock", Wrapper { short: "wE", long: &["--timeout", "--wait", "--conflict-exit-code", "--command"], skip: 1,
        code: &["-c", "--command"], ..W }),
    ("gosu", SKIP),
    ("hatch", Wrapper { short: "e", long: &["--env"], words: &["run"], ..W }),
    ("heroku", Wrapper { short: "ase", long: &["--app", "--size", "--type", "--env"],
        words: &["run", "run:detached", "local:run"], joined: true, ..W }),
    ("hyperfine", Wrapper { short: "wmrMpScn", long: &["--warmup", "--min-runs", "--max-runs", "--runs", "--prepare",
        "--export-json", "--export-markdown"], code: &["-p", "--prepare", "-S"], joined: true, ..W }),
    ("ionice", Wrapper { short: "cnpPu", long: &["--class", "--classdata"], ..W }),
    ("ltrace", Wrapper { short: "eopsnu", ..W }),
    ("mamba", Wrapper { short: "np", long: &["--name", "--prefix"], words: &["run"], ..W }),
    ("micromamba", Wrapper { short: "np", long: &["--name", "--prefix"], words: &["run"], ..W }),
    ("mise", EXEC),
    ("nice", Wrapper { short: "n", long: &["--adjustment"], ..W }),
    ("nix-shell", Wrapper { short: "pIA", code: &["--run", "--command"], long: &["--run", "--command"],
        words: &[""], ..W }),
    ("nocorrect", W),
    ("noglob", W),
    ("nohup", W),
    ("npm", Wrapper { short: "c", long: &["--package", "--call"], words: &["exec", "x"], code: &["-c", "--call"],
        ..W }),
    ("npx", Wrapper { short: "pc", long: &["--package", "--call"], code: &["-c", "--call"], ..W }),
    ("nsenter", Wrapper { short: "tSG", long: &["--target"], finding: "container.privileged", ..W }),
    ("numactl", Wrapper { short: "NmCip", ..W }),
    ("pdm", Wrapper { short: "p", long: &["--project"], words: &["run"], ..W }),
    ("perf", Wrapper { short: "eopC", words: &["stat", "record", "trace"], ..W }),
    ("pipenv", RUN),
    ("pipx", Wrapper { long: &["--spec", "--python"], words: &["run"], ..W }),
    ("pixi", Wrapper { short: "e", long: &["--environment", "--manifest-path"], words: &["run", "exec"], ..W }),
    ("pkexec", Wrapper { long: &["--user"], finding: ESCALATES, ..W }),
    ("pnpm", Wrapper { short: "C", words: &["exec", "dlx"], ..W }),
    ("poetry", Wrapper { short: "C", words: &["run"], ..W }),
    ("prlimit", Wrapper { short: "p", ..W }),
    ("proot", Wrapper { short: "rbwqk", ..W }),
    ("proxychains", Wrapper { short: "f", ..W }),
    ("proxychains4", Wrapper { short: "f", ..W }),
    ("railway", Wrapper { short: "se", long: &["--service", "--environment"], words: &["run"], ..W }),
    ("rbenv", EXEC),
    ("rlwrap", Wrapper { short: "abcCDefFgHlmMNopPqrsSt", ..W }),
    ("runuser", Wrapper { short: "ucgGs", long: &["--user", "--command", "--group", "--shell"],
        code: &["-c", "--command"], finding: ESCALATES, ..W }),
    ("rye", RUN),
    ("screen", Wrapper { short: "cehpsSTt", ..W }),
    ("script", Wrapper { short: "cEIoOT", long: &["--command"], skip: 1, code: &["-c", "--command"], ..W }),
    ("setarch", SKIP),
    ("setpriv", Wrapper { long: &["--reuid", "--regid", "--groups", "--init-groups"], ..W }),
    ("setsid", W),
    ("sg", Wrapper { short: "c", skip: 1, code: &["-c"], joined: true, ..W }),
    ("shx", W),
    ("sshpass", Wrapper { short: "pfdP", ..W }),
    ("start-stop-daemon", Wrapper { short: "xpuanc", long: &["--exec", "--startas", "--pidfile", "--user"],
        words: &[""], code: &["--exec", "-x", "--startas", "-a"], ..W }),
    ("stdbuf", Wrapper { short: "ioe", long: &["--input", "--output", "--error"], ..W }),
    ("strace", Wrapper { short: "eopsPuEaIOSXb", ..W }),
    ("su", Wrapper { short: "cgsGwT", long: &["--command", "--shell", "--group"], words: &[""],
        code: &["-c", "--command"], finding: ESCALATES, ..W }),
    ("sudo", Wrapper { short: "ugpCThrtUDR", long: SUDO_LONG, assigns: true, finding: ESCALATES,
        shells: &["-s", "-i", "--shell", "--login"], ..W }),
    ("systemd-inhibit", Wrapper { long: &["--what", "--who", "--why", "--mode"], ..W }),
    ("systemd-run", Wrapper { short: "uptHME", long: &["--unit", "--property", "--slice", "--uid", "--gid",
        "--setenv"], ..W }),
    ("taskset", Wrapper { short: "p", skip: 1, ..W }),
    ("time", Wrapper { short: "fo", long: &["--format", "--output"], ..W }),
    ("timeout", Wrapper { short: "ks", long: &["--kill-after", "--signal"], skip: 1, ..W }),
    ("torify", W),
    ("torsocks", W),
    ("toybox", W),
    ("ts-node", Wrapper { words: &[""], ..W }),
    ("unbuffer", W),
    ("unshare", Wrapper { short: "SGRw", long: &["--root", "--wd", "--setuid", "--setgid"], ..W }),
    ("uv", Wrapper { short: "p", long: &["--with", "--python", "--directory", "--project", "--extra", "--group"],
        words: &["run"], ..W }),
    ("uvx", Wrapper { long: &["--from", "--with", "--python"], ..W }),
    ("valgrind", W),
    ("watch", Wrapper { short: "nq", long: &["--interval"], joined: true, ..W }),
    ("xvfb-run", Wrapper { short: "nsefpw", long: &["--server-num", "--server-args"], ..W }),
    ("yarn", Wrapper { words: &["exec", "dlx"], ..W }),
];

/// What is known of a program that runs the command in its arguments.
#[must_use]
pub fn wrapper(name: &str) -> Option<&'static Wrapper> {
    TABLE
        .binary_search_by(|(known, _)| (*known).cmp(name))
        .ok()
        .and_then(|at| TABLE.get(at))
        .map(|(_, wrapper)| wrapper)
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }
}
