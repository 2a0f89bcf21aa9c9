//! Ordinary programs whose arguments are never a command that they would run.

const ORDINARY: &[&str] = &[
    "[",
    "apk",
    "apropos",
    "basename",
    "brew",
    "cmp",
    "comm",
    "compgen",
    "complete",
    "cowsay",
    "dirname",
    "dnf",
    "dpkg",
    "expr",
    "figlet",
    "file",
    "hash",
    "help",
    "history",
    "info",
    "jobs",
    "join",
    "let",
    "logger",
    "ls",
    "lsof",
    "man",
    "md5sum",
    "mkdir",
    "notify-send",
    "pacman",
    "paste",
    "pgrep",
    "pidof",
    "ps",
    "return",
    "rpm",
    "say",
    "seq",
    "sha256sum",
    "stat",
    "test",
    "tldr",
    "touch",
    "tput",
    "tr",
    "type",
    "wc",
    "whatis",
    "whereis",
    "which",
    "yum",
];

/// Whether a program never runs a command that stands in its arguments.
#[must_use]
pub fn is_ordinary(program: &str) -> bool {
    ORDINARY.binary_search(&program).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{is_ordinary, ORDINARY};

    #[test]
    fn the_names_are_sorted_and_each_is_found() {
        assert!(ORDINARY.windows(2).all(|pair| pair.first() < pair.last()));
        assert!(ORDINARY.iter().all(|name| is_ordinary(name)));
        assert!(!is_ordinary("rm"));
    }
}
