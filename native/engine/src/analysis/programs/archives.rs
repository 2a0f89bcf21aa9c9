//! What archive programs write: the archive, or a directory that gets members whose names stand only in the archive.

use crate::analysis::acts::{deleted, filled};
use crate::analysis::options::{split, split_with, Options, Valued};
use crate::analysis::paths::join;
use crate::analysis::values::Arg;
use crate::analysis::walk::{Call, Program, Walk};

const MAX_MEMBERS: usize = 32;
const TAR_SHORT: &str = "fbCXTgKNVFLIH";
#[rustfmt::skip]
const TAR_LONG: &[&str] = &[
    "--file", "--directory", "--cd", "--dir", "--direc",
    "--files-from", "--exclude", "--exclude-from", "--strip-components", "--transform",
    "--xform", "--use-compress-program", "--owner", "--group", "--mode", "--mtime", "--listed-incremental",
    "--index-file", "--format", "--blocking-factor", "--newer", "--after-date", "--label", "--starting-file",
    "--add-file", "--suffix", "--checkpoint-action", "--to-command", "--rsh-command", "--record-size",
];
#[rustfmt::skip]
const BASES: &[&str] = &["-C", "--directory", "--cd", "--dir", "--direc", "--one-top-level"];
#[rustfmt::skip]
const TAR_WRITES: &[&str] = &[
    "-c", "-r", "-u", "-A", "--create", "--append", "--update", "--catenate", "--concatenate", "--delete",
];
#[rustfmt::skip]
const SEVEN_LETTERS: &[&str] = &[
    "-a", "-b", "-f", "-i", "-m", "-o", "-p", "-r", "-s", "-t", "-u", "-v", "-w", "-x",
];

/// The names of the programs and what is known of each.
#[rustfmt::skip]
pub const PROGRAMS: &[(&str, Program)] = &[
    ("7z", seven), ("7za", seven), ("7zr", seven), ("7zz", seven), ("ar", ar), ("bsdcpio", cpio), ("bsdtar", tar),
    ("cpio", cpio), ("gar", ar), ("gtar", tar), ("jar", tar), ("llvm-ar", ar), ("rar", seven), ("tar", tar),
    ("unrar", seven), ("unzip", unzip),
];

/// A path seen from a directory that is itself seen from the current one.
#[must_use]
pub fn below(base: &Arg, arg: &Arg) -> Arg {
    let text = join(&base.text, &arg.text);
    Arg {
        text: if text.is_empty() {
            ".".to_owned()
        } else {
            text
        },
        glob: base.glob || arg.glob,
        taint: arg.taint,
    }
}

/// The members that are named, or all of the directory: what an archive holds is not known.
fn extracted(walk: &mut Walk, call: &Call, base: &Arg, members: &[Arg]) {
    let globbed = members.iter().any(|m| m.text.contains(['*', '?']));
    if members.is_empty() || members.len() > MAX_MEMBERS || globbed {
        return filled(walk, base, &call.program);
    }
    for member in members {
        let inside = member.with_text(member.text.trim_start_matches('/'));
        filled(walk, &below(base, &inside), &call.program);
    }
}

fn here() -> Arg {
    Arg::new(".")
}

fn used(walk: &mut Walk, call: &Call, archive: &Arg, writes: bool) {
    if writes {
        walk.written(archive, &call.program, false);
    } else {
        walk.read(archive, &call.program);
    }
}

/// Values of some options, in their order.
fn values<'o>(opts: &'o Options, names: &'o [&str]) -> impl Iterator<Item = &'o Arg> {
    let given = opts.given().iter();
    given.filter_map(|(name, value)| names.contains(&name.as_str()).then_some(value))
}

// -- tar, jar --

/// The options, also as the first word's letters without a dash, whose values then follow in their order.
fn tar_options(call: &Call) -> Options {
    let mut args = call.args.clone();
    let first = args.first().map(|a| a.text.clone()).unwrap_or_default();
    if !first.is_empty() && first.chars().all(|c| c.is_ascii_alphanumeric()) {
        let (valued, flags): (Vec<char>, Vec<char>) =
            first.chars().partition(|c| TAR_SHORT.contains(*c));
        let mut found = Vec::new();
        for (letter, value) in valued.iter().zip(call.args.iter().skip(1)) {
            found.push(Arg::new(format!("-{letter}")));
            found.push(value.clone());
        }
        if !flags.is_empty() {
            found.push(Arg::new(format!("-{}", String::from_iter(flags))));
        }
        found.extend(call.args.iter().skip(1 + valued.len()).cloned());
        args = found;
    }
    split(&args, TAR_SHORT, TAR_LONG, false)
}

fn tar(walk: &mut Walk, call: &Call) {
    let opts = tar_options(call);
    if opts.has(&["--help", "--version"]) {
        return;
    }
    let base = values(&opts, BASES).fold(here(), |base, folder| below(&base, folder));
    let writes = opts.has(TAR_WRITES);
    for archive in values(&opts, &["-f", "--file"]).filter(|a| a.text != "-") {
        used(walk, call, archive, writes);
    }
    for (name, value) in opts.given() {
        match name.as_str() {
            "-g" | "--listed-incremental" | "--index-file" => used(walk, call, value, true),
            "-T" | "-X" | "--files-from" | "--exclude-from" => used(walk, call, value, false),
            _ => {}
        }
    }
    if opts.has(&["-x", "--extract", "--get"]) {
        if !opts.has(&["-O", "--to-stdout", "--to-command"]) {
            let anywhere = opts.has(&["-P", "--absolute-names"]);
            let base = if anywhere { Arg::new("/") } else { base };
            extracted(walk, call, &base, &opts.operands);
        }
    } else if writes && !opts.has(&["--delete"]) {
        for operand in &opts.operands {
            let operand = below(&base, operand);
            walk.read(&operand, &call.program);
            if opts.has(&["--remove-files"]) {
                for finding in deleted(walk, &operand, true) {
                    walk.give(finding);
                }
            }
        }
    }
}

// -- zip, 7z, cpio, ar --

fn unzip(walk: &mut Walk, call: &Call) {
    let opts = split(&call.args, "dxP", &[], false);
    #[rustfmt::skip]
    let told = ["-l", "-v", "-Z", "-z", "-t", "-p", "-c", "--help", "--version"];
    if !opts.has(&told) {
        let base = opts.value("-d").cloned().unwrap_or_else(here);
        let members = opts.operands.get(1..).unwrap_or(&[]);
        extracted(walk, call, &base, members);
    }
}

/// 7z, rar: a word that says what, the archive, members; rar takes a directory as its last operand.
fn seven(walk: &mut Walk, call: &Call) {
    let valued = Valued {
        short: "",
        long: &[],
        attached: SEVEN_LETTERS,
    };
    let opts = split_with(&call.args, &valued, false);
    let what = opts.operands.first().map_or("", |a| a.text.as_str());
    if matches!(what, "x" | "e") && !opts.has(&["-so"]) {
        let mut base = values(&opts, &["-o"]).next().cloned().unwrap_or_else(here);
        let mut members = opts.operands.get(2..).unwrap_or(&[]);
        if let Some((last, others)) = members.split_last() {
            if call.program.contains("rar") && last.text.ends_with('/') {
                base = last.clone();
                members = others;
            }
        }
        extracted(walk, call, &base, members);
    }
    if let Some(archive) = opts.operands.get(1) {
        let writes = matches!(what, "a" | "u" | "d" | "m" | "rn" | "f");
        used(walk, call, archive, writes);
    }
}

fn cpio(walk: &mut Walk, call: &Call) {
    #[rustfmt::skip]
    let long = ["--directory", "--file", "--format", "--owner", "--pattern-file"];
    let opts = split(&call.args, "CDEFHIMORW", &long, false);
    let base = opts.value("-D").or_else(|| opts.value("--directory"));
    let base = base.cloned().unwrap_or_else(here);
    let archives = values(&opts, &["-F", "--file", "-O", "-I"]);
    if opts.has(&["-p", "--pass-through"]) {
        if let Some(target) = opts.operands.last() {
            filled(walk, &below(&base, target), &call.program);
        }
    } else if opts.has(&["-o", "--create"]) {
        archives.for_each(|archive| used(walk, call, archive, true));
    } else {
        archives.for_each(|archive| used(walk, call, archive, false));
        if opts.has(&["-i", "--extract"]) && !opts.has(&["-t", "--list", "--to-stdout"]) {
            extracted(walk, call, &base, &[]);
        }
    }
}

/// `ar x lib.a`, `ar rcs lib.a a.o`: letters, the archive, members.
fn ar(walk: &mut Walk, call: &Call) {
    let args: Vec<Arg> = call
        .args
        .iter()
        .filter(|a| !a.text.starts_with("--"))
        .cloned()
        .collect();
    let what = args.first().map_or("", |a| a.text.trim_start_matches('-'));
    if what.contains('x') {
        let opts = split(&call.args, "", &["--output"], false);
        let base = opts.value("--output").cloned().unwrap_or_else(here);
        extracted(walk, call, &base, args.get(2..).unwrap_or(&[]));
    }
    if let Some(archive) = args.get(1) {
        used(
            walk,
            call,
            archive,
            what.contains(['d', 'm', 'q', 'r', 's']),
        );
    }
}
