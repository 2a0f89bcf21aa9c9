//! Programs that run the command in their arguments: by the table, and those that need their own reading.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::effects::Finding;
use super::environment::one;
use super::machines;
use super::options::{split, Options};
use super::outputs::printed;
use super::patterns::{stripped, words, Pattern};
use super::supposed::suppose;
use super::values::{
    after_last, is_space, length, partition, spaced, truncated, Arg, UNKNOWN, UNKNOWN_TEXT,
};
use super::walk::{Call, Handler, Walk};
use super::wrapper_table::{wrapper, Wrapper};

static ASSIGNMENT: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^[A-Za-z_]\w*="));
static CRON_LINE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"^\s*(?:@\w+|(?:\S+\s+){5})\s*(.+)"));
const MAX_ITEMS: usize = 64;
const MAX_FILLED: usize = 65536;

/// The handler of a program that runs the command in its arguments.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "at" | "batch" => at,
        "cmake" => cmake,
        "crontab" => crontab,
        "fd" | "fdfind" => fd,
        "find" | "gfind" => find,
        "parallel" => parallel,
        "xargs" => xargs,
        _ => return machines::handler(name).or_else(|| wrapper(name).map(|_| wrapped as Handler)),
    })
}

fn wrapped(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let spec = wrapper(&call.program)?;
    let stays = spec.words == [""];
    let mut args = call.args.clone();
    if !spec.words.is_empty() {
        args = after_words(args, spec);
        if args.is_empty() {
            // another subcommand, of which we do not know that it runs something
            suppose(walk, call, true);
        }
    }
    if call.program == "env" {
        let mut operand = false;
        args.retain(|a| {
            let keep = a.text != "-" || operand;
            operand = operand || !a.text.starts_with('-');
            keep
        });
    }
    let opts = split(&args, spec.short, spec.long, !stays);
    if let Some(code) = spec.code.iter().find_map(|o| opts.value(o)) {
        return Some(coded(walk, call, code, &opts));
    }
    let mut start = spec.skip;
    while let Some(arg) = opts.operands.get(start) {
        if !spec.assigns || !ASSIGNMENT.is_match(&arg.text) {
            break;
        }
        assign(walk, arg);
        start += 1;
    }
    let mut rest: Vec<Arg> = opts.operands.iter().skip(start).cloned().collect();
    if rest.first().is_some_and(|a| a.text == "--") {
        rest.remove(0);
    }
    if let [first, code, ..] = rest.as_slice() {
        if spec.code.contains(&first.text.as_str()) {
            return Some(walk.code(code.clone(), &call.program, call.stdin.clone()));
        }
    }
    own_finding(walk, call, spec, &opts, &rest);
    if rest.is_empty() && opts.has(spec.shells) {
        if let Some(stdin) = &call.stdin {
            return Some(walk.code(stdin.clone(), &call.program, None));
        }
    }
    if rest.is_empty() || stays {
        return None;
    }
    if spec.joined {
        return Some(walk.code(Arg::new(spaced(&rest)), &call.program, call.stdin.clone()));
    }
    Some(walk.execute(rest, call.stdin.clone(), false))
}

/// An option's value that a shell runs.
fn coded(walk: &mut Walk, call: &Call, code: &Arg, opts: &Options) -> Arg {
    let mut code = code.clone();
    if call.program == "env" {
        let mut words = vec![code.clone()];
        words.extend(opts.operands.iter().cloned());
        code.text = spaced(&words);
    }
    if call.program == "start-stop-daemon" {
        let mut argv = vec![code];
        argv.extend(opts.operands.iter().cloned());
        return walk.execute(argv, call.stdin.clone(), false);
    }
    walk.code(code, &call.program, call.stdin.clone())
}

/// What follows the subcommand; nothing where another subcommand stands.
fn after_words(args: Vec<Arg>, spec: &Wrapper) -> Vec<Arg> {
    if spec.words == [""] {
        return args;
    }
    let mut before = split(&args, spec.short, spec.long, true).operands;
    match before.first() {
        Some(first) if spec.words.contains(&first.text.as_str()) => before.split_off(1),
        _ => Vec::new(),
    }
}

fn assign(walk: &mut Walk, arg: &Arg) {
    let (name, _, value) = partition(&arg.text, '=');
    if !walk.spend(8) {
        return;
    }
    let value = one(arg.with_text(value));
    walk.env.set(name, value.clone());
    walk.sensitive(name, &value);
}

fn own_finding(walk: &mut Walk, call: &Call, spec: &Wrapper, opts: &Options, rest: &[Arg]) {
    if spec.finding.is_empty() || opts.has(&["--help", "--version", "-V", "-l", "-v", "-k", "-K"]) {
        return;
    }
    let first = rest.first().map_or("", |a| a.text.as_str());
    walk.emit(Finding::new(spec.finding, first, "system"), &call.program);
    let shells = ["su", "bash", "sh", "zsh", "fish", "dash"];
    if (rest.is_empty() && opts.has(spec.shells))
        || (call.program == "su" && opts.value("-c").is_none())
    {
        walk.emit(Finding::new("privilege.shell", "", "system"), &call.program);
    } else if rest.len() == 1 && shells.contains(&after_last(first, '/')) {
        walk.emit(
            Finding::new("privilege.shell", first, "system"),
            &call.program,
        );
    }
}

// -- xargs, parallel, find -exec --

fn xargs(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let long = [
        "--arg-file",
        "--delimiter",
        "--max-args",
        "--max-procs",
        "--max-chars",
    ];
    let opts = split(&call.args, "aEILndPsJR", &long, true);
    let command = if opts.operands.is_empty() {
        vec![Arg::new("echo")]
    } else {
        opts.operands.clone()
    };
    let value = |names: &[&str]| names.iter().find_map(|name| opts.value(name));
    let line = Arg::new("\n");
    let mut delimiter = value(&["-d", "--delimiter"]);
    let never = Arg::new(UNKNOWN_TEXT);
    if opts.has(&["-0", "--null"]) && call.stdin.as_ref().is_some_and(Arg::known) {
        delimiter = Some(&never); // which does not stand in it: it is one item
    }
    let mark = match value(&["-I", "-J", "--replace"]) {
        Some(holder) if !holder.text.is_empty() => holder.text.as_str(),
        Some(_) => "{}",
        None if opts.has(&["-i", "--replace"]) => "{}",
        None => "",
    };
    if !mark.is_empty() && !opts.has(&["-d", "--delimiter", "-0", "--null"]) {
        delimiter = Some(&line); // each line is one item
    }
    let items = items(call.stdin.as_ref(), delimiter);
    let filled = filled(walk, command, &items, mark);
    Some(walk.execute(filled, Some(Arg::unknown()), false))
}

fn items(stdin: Option<&Arg>, delimiter: Option<&Arg>) -> Vec<Arg> {
    let Some(stdin) = stdin.filter(|arg| !stripped(&arg.text).is_empty()) else {
        return vec![Arg::unknown_from(stdin.map_or("", |arg| arg.taint))];
    };
    let pieces: Vec<&str> = match delimiter.filter(|d| !d.text.is_empty()) {
        Some(delimiter) => stdin
            .text
            .split(delimiter.text.as_str())
            .take(MAX_ITEMS)
            .collect(),
        None => words(&stdin.text).take(MAX_ITEMS).collect(),
    };
    pieces
        .into_iter()
        .map(|piece| piece.trim_matches('\n'))
        .filter(|piece| !piece.is_empty())
        .map(|piece| Arg::tainted(piece, stdin.taint))
        .collect()
}

/// The command with the items at its end, or in the place of `mark`.
fn filled(walk: &mut Walk, mut command: Vec<Arg>, items: &[Arg], mark: &str) -> Vec<Arg> {
    if mark.is_empty() || !command.iter().any(|a| a.text.contains(mark)) {
        command.extend(items.iter().cloned());
        return command;
    }
    let all_items = spaced(items);
    let taint = items.first().map_or("", |item| item.taint);
    let width = length(&all_items);
    let mut found = Vec::new();
    for arg in command {
        if arg.text == mark {
            if !walk.spend(8 * items.len() + width) {
                break;
            }
            found.extend(items.iter().cloned());
        } else if arg.text.contains(mark) {
            if !walk.spend(width / 8) {
                break;
            }
            let mut new = arg.with_text(replaced(&arg.text, mark, &all_items));
            new.taint = if arg.taint.is_empty() {
                taint
            } else {
                arg.taint
            };
            if !walk.spend(length(&new.text)) {
                break;
            }
            found.push(new);
        } else {
            found.push(arg);
        }
    }
    found
}

/// The text with `mark` replaced, no longer than a word may be; never built longer than twice that.
fn replaced(text: &str, mark: &str, with: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split(mark).peekable();
    while let Some(piece) = pieces.next() {
        out.push_str(piece);
        if out.len() > MAX_FILLED * 4 {
            break;
        }
        if pieces.peek().is_some() {
            out.push_str(with);
        }
    }
    truncated(&out, MAX_FILLED).to_owned()
}

fn parallel(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let long = [
        "--jobs",
        "--sshlogin",
        "--arg-file",
        "--colsep",
        "--delay",
        "--joblog",
        "--results",
        "--env",
    ];
    let opts = split(&call.args, "jSIaNnLCdP", &long, true);
    let cuts = |a: &Arg| matches!(a.text.as_str(), ":::" | "::::" | ":::+");
    let cut = opts
        .operands
        .iter()
        .position(cuts)
        .unwrap_or(opts.operands.len());
    let command: Vec<Arg> = opts.operands.iter().take(cut).cloned().collect();
    let mut items: Vec<Arg> = opts.operands.iter().skip(cut + 1).cloned().collect();
    if items.is_empty() {
        items = self::items(call.stdin.as_ref(), Some(&Arg::new("\n")));
    }
    if command.is_empty() {
        for item in items {
            walk.code(item, "parallel", None);
        }
        return Some(Arg::unknown());
    }
    let joined = command.iter().any(|a| a.text.contains(' '));
    let filled = filled_here(walk, command, &items);
    if joined {
        walk.code(Arg::new(spaced(&filled)), "parallel", None);
    }
    Some(walk.execute(filled, None, false))
}

/// The command with the items in the place of `{}`, where it has one.
fn filled_here(walk: &mut Walk, command: Vec<Arg>, items: &[Arg]) -> Vec<Arg> {
    filled(walk, command, items, "{}")
}

/// -exec, -execdir, -ok: the command, once, with what the search would find. -delete is in the programs' table.
fn find(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = &call.args;
    let found = items(Some(&printed("find", args, None)), None);
    let mut k = 0;
    while let Some(arg) = args.get(k) {
        if matches!(arg.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            let rest = args.iter().skip(k + 1);
            let command: Vec<Arg> = rest
                .take_while(|a| a.text != ";" && a.text != "+")
                .cloned()
                .collect();
            k += 1 + command.len();
            if !command.is_empty() {
                let filled = filled_here(walk, command, &found);
                walk.execute(filled, None, false);
            }
        }
        k += 1;
    }
    None
}

fn fd(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let cuts = |a: &Arg| matches!(a.text.as_str(), "-x" | "--exec" | "-X" | "--exec-batch");
    let cut = call.args.iter().position(cuts)?;
    let (before, after) = call.args.split_at_checked(cut)?;
    let operands = split(before, "edtSoEcj", &[], false).operands;
    let all = operands
        .first()
        .is_some_and(|a| matches!(a.text.as_str(), "." | "" | ".*"));
    let taint = if all { "found" } else { "filtered" };
    let below =
        |root: &str| Arg::tainted(format!("{}/{UNKNOWN}", root.trim_end_matches('/')), taint);
    let mut items: Vec<Arg> = operands
        .iter()
        .skip(1)
        .map(|root| below(&root.text))
        .collect();
    if items.is_empty() {
        items.push(below("."));
    }
    let command: Vec<Arg> = after.iter().skip(1).cloned().collect();
    if command.is_empty() {
        return None;
    }
    let filled = filled_here(walk, command, &items);
    Some(walk.execute(filled, None, false))
}

fn at(walk: &mut Walk, call: &Call) -> Option<Arg> {
    if let Some(code) = &call.stdin {
        walk.code(code.clone(), &call.program, None);
    }
    Some(Arg::empty())
}

/// `cmake -E rm x`: its own spellings of common commands, and those that run another.
fn cmake(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let [first, name, rest @ ..] = call.args.as_slice() else {
        return None;
    };
    if first.text != "-E" {
        return None;
    }
    let tool: &[&str] = match name.text.as_str() {
        "copy" => &["cp"],
        "copy_directory" => &["cp", "-r"],
        "create_symlink" => &["ln", "-s"],
        "env" => &["env"],
        "remove" | "rm" => &["rm"],
        "remove_directory" => &["rm", "-r"],
        "rename" => &["mv"],
        "time" => &["time"],
        "touch" => &["touch"],
        "chdir" => &[],
        _ => return None,
    };
    let skipped = usize::from(tool.is_empty());
    let mut argv: Vec<Arg> = tool.iter().map(|word| Arg::new(*word)).collect();
    argv.extend(rest.iter().skip(skipped).cloned());
    walk.execute(argv, call.stdin.clone(), false);
    None
}

/// A crontab's lines: five fields and a command.
fn crontab(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let text = call.stdin.as_ref().map_or("", |stdin| stdin.text.as_str());
    for line in text.split('\n').take(200) {
        if line.trim_start_matches(is_space).starts_with('#') {
            continue;
        }
        if let Some(found) = CRON_LINE.captures(line) {
            walk.code(Arg::new(found.text(1)), "crontab", None);
        }
    }
    Some(Arg::empty())
}
