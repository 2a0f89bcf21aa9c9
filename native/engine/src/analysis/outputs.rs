//! What a command would print, where its text already says so: echo, printf, cat of a here-document, base64 -d ...

use super::decode::decoded;
use super::options::split;
use super::scan::ansi_c;
use super::values::{first_taint, spaced, truncated, Arg, HOME_TEXT, UNKNOWN};

const MAX: usize = 64 * 1024;
const DOWNLOADERS: &[&str] = &[
    "curl",
    "wget",
    "http",
    "https",
    "fetch",
    "aria2c",
    "lynx",
    "telnet",
    "xh",
    "ftp",
    "nc",
    "ncat",
    "netcat",
    "dig",
    "w3m",
    "iwr",
    "irm",
    "Invoke-WebRequest",
    "Invoke-RestMethod",
];
const PASSES: &[&str] = &[
    "cat", "tee", "sort", "head", "tail", "uniq", "tac", "less", "more", "pv", "sponge", "bat",
];
/// They leave lines out.
const SOME: &[&str] = &["head", "tail"];
/// They give some of the lines.
const FILTERS: &[&str] = &["grep", "egrep", "fgrep", "rg"];
#[rustfmt::skip]
const REWRITERS: &[&str] = &[
    "sed", "gsed", "awk", "gawk", "mawk", "nawk", "tr", "cut", "jq", "yq", "iconv", "fold", "fmt", "paste", "column",
    "expand", "unexpand", "strings", "colrm", "col", "pr", "join", "m4", "envsubst", "csplit", "dd",
];
const DECODERS: &[&str] = &[
    "base64", "base32", "basenc", "xxd", "openssl", "gpg", "rev", "gunzip", "zcat", "uudecode",
    "bzcat", "xzcat", "gzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "zstdcat", "lz4", "lz4cat",
    "lzcat", "brotli", "unzip", "tar", "7z", "unrar",
];
/// Programs of [`DECODERS`] that decode without an option.
#[rustfmt::skip]
const ALWAYS: &[&str] = &[
    "rev", "gunzip", "zcat", "uudecode", "gpg", "bzcat", "xzcat", "bunzip2", "unxz", "zstdcat", "lz4cat", "lzcat",
    "unzip", "tar", "7z", "unrar",
];
/// Taints that outlive a rewriting.
const STRONGER: &[&str] = &["net", "decoded", "secret", "guard"];
/// Options of a search that narrow it by nothing, as far as known.
const WIDE: &[&str] = &[
    "-name",
    "-print0",
    "-print",
    "-type",
    "-depth",
    "-delete",
    "-maxdepth",
    "-mindepth",
];

/// What a program prints: its text as far as known; where only its origin is known, that.
#[must_use]
pub fn printed(program: &str, args: &[Arg], stdin: Option<&Arg>) -> Arg {
    if let Some(made) = made(program, args, stdin) {
        return made;
    }
    if DOWNLOADERS.contains(&program) {
        return Arg::unknown_from("net");
    }
    if DECODERS.contains(&program) {
        return from_decoder(program, args, stdin);
    }
    if PASSES.contains(&program) {
        let some = SOME.contains(&program) && stdin.is_some_and(|arg| arg.taint == "found");
        return if some {
            Arg::unknown_from("filtered")
        } else {
            passed(args, stdin)
        };
    }
    if FILTERS.contains(&program) && args.iter().any(|arg| names_files(&arg.text)) {
        return named(args);
    }
    if REWRITERS.contains(&program) {
        return rewritten(stdin);
    }
    let taint = stdin.map_or("", |arg| arg.taint);
    if taint.is_empty() && stdin.is_some_and(Arg::known) && FILTERS.contains(&program) {
        return Arg::unknown_from("text");
    }
    Arg::unknown_from(taint)
}

/// `-l`, `-rl`, `--files-with-matches`: grep prints names of files.
fn names_files(text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(name) => name.starts_with("files-with"),
        None => text.starts_with('-') && text.is_ascii() && text.contains(['l', 'L']),
    }
}

/// Some of the files that a search found.
fn named(args: &[Arg]) -> Arg {
    let mut text = String::new();
    for arg in args
        .iter()
        .filter(|a| matches!(a.taint, "found" | "filtered"))
    {
        text.push_str(&arg.text);
        text.push('\n');
    }
    if text.is_empty() {
        text.push(UNKNOWN);
    }
    Arg::tainted(text, "filtered")
}

/// What a program makes of its input, or of a file: unknown, and no longer what it was.
#[must_use]
pub fn rewritten(stdin: Option<&Arg>) -> Arg {
    let stronger = stdin.filter(|arg| STRONGER.contains(&arg.taint));
    Arg::unknown_from(stronger.map_or("text", |arg| arg.taint))
}

/// What a program prints whose arguments say it.
fn made(program: &str, args: &[Arg], stdin: Option<&Arg>) -> Option<Arg> {
    Some(match program {
        "echo" => echo(args),
        "printf" => printf(args),
        "mktemp" => Arg::new(format!("/tmp/{UNKNOWN}")),
        "pwd" => Arg::new("."),
        "tee" => stdin.cloned().unwrap_or_else(Arg::unknown),
        "dirname" => dirname(args),
        "realpath" | "readlink" => same(args),
        "pgrep" | "pidof" => {
            let guard = args.iter().any(|arg| arg.text.contains("interlock"));
            Arg::unknown_from(if guard { "guard" } else { "" })
        }
        "find" => find(args),
        "fd" => Arg::unknown_from("found"),
        "ls" => ls(args),
        "docker" | "nerdctl" | "podman" => containers(args),
        "redis-cli" | "valkey-cli" => {
            let lists = |arg: &Arg| matches!(arg.text.to_uppercase().as_str(), "KEYS" | "--SCAN");
            Arg::unknown_from(if args.iter().any(lists) { "found" } else { "" })
        }
        "which" => {
            let name = args.iter().find(|arg| !arg.text.starts_with('-'));
            Arg::new(name.map_or("", |arg| arg.text.as_str()))
        }
        "true" | "false" | ":" | "cd" | "export" | "sleep" | "mkdir" | "rm" => Arg::empty(),
        _ => return None,
    })
}

/// ls without a name: everything that is here.
fn ls(args: &[Arg]) -> Arg {
    let here = |text: &str| matches!(text, "*" | "*/" | "." | "./" | "./*");
    if args
        .iter()
        .any(|a| !a.text.starts_with('-') && !here(&a.text))
    {
        return Arg::unknown_from("found");
    }
    Arg::tainted(format!("./{UNKNOWN}\n"), "found")
}

/// docker ps -aq, docker images -q: all that there are.
fn containers(args: &[Arg]) -> Arg {
    let mut words = args.iter().filter(|a| !a.text.starts_with('-')).take(2);
    let lists = words.any(|a| matches!(a.text.as_str(), "ps" | "images" | "ls"));
    let narrows = |a: &Arg| {
        ["-f", "--filter", "--last"]
            .iter()
            .any(|o| a.text.starts_with(o))
    };
    let all = lists && !args.iter().any(narrows);
    Arg::unknown_from(if all { "found" } else { "" })
}

fn echo(args: &[Arg]) -> Arg {
    let is_flag = |arg: &&Arg| {
        let letters = arg.text.strip_prefix('-').unwrap_or("");
        !letters.is_empty() && letters.bytes().all(|b| matches!(b, b'n' | b'e' | b'E'))
    };
    let flags = args.iter().take_while(is_flag).count();
    let (flags, words) = args.split_at(flags);
    let has = |letter: char| flags.iter().any(|flag| flag.text.contains(letter));
    let mut text = spaced(words);
    if has('e') {
        text = ansi_c(&text).into_owned();
    }
    if !has('n') {
        text.push('\n');
    }
    Arg::tainted(text, first_taint(words))
}

fn printf(args: &[Arg]) -> Arg {
    let words = match args.split_first() {
        Some((first, rest)) if first.text == "--" => rest,
        _ => args,
    };
    let Some((form, mut values)) = words.split_first() else {
        return Arg::empty();
    };
    if form.text == "-v" && !values.is_empty() {
        return Arg::empty();
    }
    let taint = first_taint(words);
    let form = ansi_c(&form.text);
    let mut out = String::new();
    loop {
        let before = values.len();
        formatted(&form, &mut values, &mut out);
        if values.is_empty() || values.len() == before || truncated(&out, MAX).len() < out.len() {
            break;
        }
    }
    let end = truncated(&out, MAX).len();
    out.truncate(end);
    Arg::tainted(out, taint)
}

/// Write the form once, with a value in the place of each directive.
fn formatted(form: &str, values: &mut &[Arg], out: &mut String) {
    let mut rest = form;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let Some(length) = directive(after) else {
            out.push('%');
            rest = after;
            continue;
        };
        let (spec, following) = after.split_at(length);
        rest = following;
        if spec == "%" {
            out.push('%');
        } else if let Some((value, others)) = values.split_first() {
            *values = others;
            if spec.ends_with('b') {
                out.push_str(&ansi_c(&value.text));
            } else {
                out.push_str(&value.text);
            }
        }
    }
    out.push_str(rest);
}

/// The length of what follows a directive's `%`, None where it is none.
fn directive(after: &str) -> Option<usize> {
    let bytes = after.as_bytes();
    if bytes.first() == Some(&b'%') {
        return Some(1);
    }
    let run = |from: usize, takes: fn(&u8) -> bool| {
        from + bytes
            .get(from..)
            .unwrap_or(&[])
            .iter()
            .take_while(|b| takes(b))
            .count()
    };
    let mut at = run(0, |b| matches!(b, b'-' | b'+' | b' ' | b'#' | b'0'));
    at = run(at, u8::is_ascii_digit);
    if bytes.get(at) == Some(&b'.') {
        let end = run(at + 1, u8::is_ascii_digit);
        if end == at + 1 {
            return None;
        }
        at = end;
    }
    bytes
        .get(at)
        .is_some_and(u8::is_ascii_alphabetic)
        .then_some(at + 1)
}

/// cat and its like: the input, where no file is named.
fn passed(args: &[Arg], stdin: Option<&Arg>) -> Arg {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_file = |arg: &Arg| !arg.text.starts_with('-') && !is_number(&arg.text);
    let reads = |arg: &Arg| arg.text == "-";
    match stdin {
        Some(stdin) if !args.iter().any(is_file) || args.iter().any(reads) => stdin.clone(),
        Some(stdin) if !stdin.taint.is_empty() => stdin.clone(), // a file that does not matter beside it
        _ => Arg::unknown_from("file"),
    }
}

fn from_decoder(program: &str, args: &[Arg], stdin: Option<&Arg>) -> Arg {
    let decodes = ALWAYS.contains(&program)
        || split(args, "wi", &[], false).has(&[
            "-d",
            "-D",
            "--decode",
            "-r",
            "--reverse",
            "--decompress",
        ]);
    if !decodes {
        return Arg::unknown_from(stdin.map_or("file", |arg| arg.taint));
    }
    match stdin {
        Some(stdin) if stdin.known() => match decoded(program, &stdin.text) {
            Some(text) => Arg::tainted(text, "decoded"),
            None => Arg::unknown_from("decoded"),
        },
        Some(stdin) if matches!(stdin.taint, "net" | "secret") => Arg::unknown_from(stdin.taint),
        _ => Arg::unknown_from("decoded"),
    }
}

fn dirname(args: &[Arg]) -> Arg {
    let path = args.last().map_or("", |arg| arg.text.trim_end_matches('/'));
    if path == HOME_TEXT {
        return Arg::new("/home");
    }
    Arg::new(match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    })
}

/// realpath, readlink -f: the path itself, as far as its text says.
fn same(args: &[Arg]) -> Arg {
    let path = args.iter().rev().find(|arg| !arg.text.starts_with('-'));
    path.cloned().unwrap_or_else(Arg::unknown)
}

/// The roots of a search, each with an unknown below; "filtered" where the search was narrowed.
fn find(args: &[Arg]) -> Arg {
    let is_root = |arg: &&Arg| !arg.text.starts_with(['-', '(', '!']);
    let (roots, tests) = args.split_at(args.iter().take_while(is_root).count());
    let runs = |arg: &Arg| matches!(arg.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let cut = tests.iter().position(runs).unwrap_or(tests.len());
    let (tests, _) = tests.split_at(cut);
    let narrowed = tests
        .iter()
        .any(|arg| arg.text.starts_with('-') && !WIDE.contains(&arg.text.as_str()))
        || tests.iter().zip(tests.iter().skip(1)).any(|(test, value)| {
            test.text == "-name" && !matches!(value.text.as_str(), "*" | ".*" | "*.*")
        });
    let mut text = String::new();
    for root in roots {
        text.push_str(root.text.trim_end_matches('/'));
        text.push('/');
        text.push(UNKNOWN);
        text.push('\n');
    }
    if roots.is_empty() {
        text = format!("./{UNKNOWN}\n");
    }
    Arg::tainted(text, if narrowed { "filtered" } else { "found" })
}

#[cfg(test)]
mod tests {
    use super::printed;
    use crate::analysis::values::Arg;

    fn of(program: &str, args: &[&str], stdin: Option<&str>) -> Arg {
        let args: Vec<Arg> = args.iter().map(|text| Arg::new(*text)).collect();
        printed(program, &args, stdin.map(Arg::new).as_ref())
    }

    #[test]
    fn echo_and_printf_say_what_they_print() {
        assert_eq!(of("echo", &["-e", r"a\tb"], None).text, "a\tb\n");
        assert_eq!(of("echo", &["-n", "a", "-n"], None).text, "a -n");
        assert_eq!(
            of("printf", &["%s-%s;", "a", "b", "c"], None).text,
            "a-b;c-;"
        );
        assert_eq!(
            of("printf", &["%%%5.2f%b%", "1", r"\x41"], None).text,
            "%1A%"
        );
        assert_eq!(of("printf", &["--", "x%.q"], None).text, "x%.q");
        assert_eq!(of("printf", &["-v", "x", "y"], None).text, "");
    }

    #[test]
    fn origins_follow_what_is_not_known() {
        assert_eq!(of("curl", &["x"], None).taint, "net");
        assert_eq!(of("sed", &["s/a/b/"], Some("a")).taint, "text");
        assert_eq!(of("cat", &[], Some("a")), Arg::new("a"));
        assert_eq!(of("cat", &["f"], Some("a")).taint, "file");
        assert_eq!(of("head", &["-n", "1"], Some("a")), Arg::new("a"));
    }

    #[test]
    fn what_is_decoded_is_read() {
        assert_eq!(
            of("base64", &["-d"], Some("cm0gLXJm\n")),
            Arg::tainted("rm -rf", "decoded")
        );
        assert_eq!(of("base64", &[], Some("a")).text, "\u{0}");
        assert_eq!(of("rev", &[], Some("fr- mr\n")).text, "rm -rf\n");
        assert_eq!(of("gpg", &["-d"], None), Arg::unknown_from("decoded"));
    }

    #[test]
    fn a_search_gives_its_roots_and_says_whether_it_was_narrowed() {
        assert_eq!(
            of("find", &["/a/", "b", "-type", "f"], None),
            Arg::tainted("/a/\u{0}\nb/\u{0}\n", "found")
        );
        assert_eq!(
            of("find", &["-name", "*.o"], None),
            Arg::tainted("./\u{0}\n", "filtered")
        );
        assert_eq!(of("dirname", &["/a"], None).text, "/");
        assert_eq!(of("dirname", &["a/b/"], None).text, "a");
    }
}
