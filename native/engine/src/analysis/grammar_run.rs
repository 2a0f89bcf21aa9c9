//! What a program's grammar says of one call: its effects, as findings.

use super::acts::{arrives, deleted, filled, linked, moved, permitted, swept};
use super::acts_net::{fetched, host, is_remote, saved_as, scope_of, sent};
use super::effects::Finding;
use super::grammar::{grammar, like, Condition, Effect, Glob, Level, Names, Selection, Switch};
use super::options::{split_with, Options, Valued};
use super::paths::is_disk;
use super::values::{spaced, Arg};
use super::walk::{Call, Walk};

const PACKED: &[&str] = &[
    ".gz", ".bz2", ".xz", ".lzma", ".zst", ".lz4", ".lz", ".br", ".Z", ".gpg", ".asc",
];
/// An option's name ("" for an operand) and the argument.
type Given = (&'static str, Arg);

/// What the grammar of the called program says.
pub fn program(walk: &mut Walk, call: &Call) {
    let Some(level) = grammar(&call.program) else {
        return;
    };
    let mut helped = false;
    for (level, help, opts) in levels(level, &call.args) {
        helped = helped || (!help.is_empty() && opts.has(help));
        if helped {
            continue;
        }
        for effect in &level.effects {
            if holds(effect.when.as_ref(), &opts, call, true)
                && !holds(effect.unless.as_ref(), &opts, call, false)
            {
                tell(walk, call, effect, &opts);
            }
        }
    }
}

/// Each level that the arguments reach, with its help and its options and operands, the outermost first.
fn levels<'l>(level: &'l Level, args: &[Arg]) -> Vec<(&'l Level, &'l [&'static str], Options)> {
    let (mut short, mut long) = (level.short.clone(), level.long.clone());
    let (mut attached, mut help) = (level.attached.clone(), level.help.as_slice());
    let (mut level, mut args) = (level, args.to_vec());
    let mut found = Vec::new();
    loop {
        let valued = Valued {
            short: &short,
            long: &long,
            attached: &attached,
        };
        let opts = split_with(&args, &valued, level.leading);
        let first = opts
            .operands
            .first()
            .and_then(|first| level.commands.get(first.text.as_str()));
        let inner = first.and_then(|at| level.inner.get(*at));
        args = opts.operands.get(1..).unwrap_or(&[]).to_vec();
        found.push((level, help, opts));
        let Some(inner) = inner else {
            return found;
        };
        if !level.anywhere {
            (short, long, attached) = (String::new(), Vec::new(), Vec::new());
        }
        short.push_str(&inner.short);
        long.extend(&inner.long);
        attached.extend(&inner.attached);
        if !inner.help.is_empty() {
            help = &inner.help;
        }
        level = inner;
    }
}

// -- conditions --

/// Whether the condition holds; `wanted` is the answer where there is none.
fn holds(condition: Option<&Condition>, opts: &Options, call: &Call, wanted: bool) -> bool {
    let Some(c) = condition else {
        return wanted;
    };
    let operands = opts.operands.as_slice();
    let separated = opts.cut.is_some_and(|cut| cut < operands.len());
    let globbed = || operands.iter().any(|a| a.text.contains(['*', '?']));
    let valued = |(name, globs): &(&'static str, Vec<Glob>)| {
        opts.value(name).is_some_and(|v| like(&v.text, globs))
    };
    (c.any.is_empty() || given(opts, &c.any))
        && c.all.iter().all(|names| given(opts, names))
        && (c.none.is_empty() || !given(opts, &c.none))
        && operands.len() >= c.operands
        && (c.words.is_empty()
            || c.words
                .iter()
                .any(|(anchored, words)| is_spoken(*anchored, words, operands)))
        && (c.operand.is_empty() || operands.iter().any(|a| like(&a.text, &c.operand)))
        && (c.value.is_empty() || c.value.iter().any(valued))
        && c.separator.is_none_or(|wanted| wanted == separated)
        && c.stdin.is_none_or(|wanted| wanted == call.stdin.is_some())
        && (c.last.is_empty() || operands.last().is_some_and(|a| like(&a.text, &c.last)))
        && c.remote
            .is_none_or(|wanted| wanted == operands.last().is_some_and(|a| is_remote(&a.text)))
        && c.bare.is_none_or(|wanted| wanted == call.args.is_empty())
        && c.globbed.is_none_or(|wanted| wanted == globbed())
}

/// Whether one of the options was given.
fn given(opts: &Options, names: &Names) -> bool {
    (!names.plain.is_empty() && opts.has(&names.plain))
        || (!names.globs.is_empty() && opts.any_flag(|flag| like(flag, &names.globs)))
}

/// Whether operands that follow each other are like the pattern's words.
fn is_spoken(anchored: bool, words: &[Glob], operands: &[Arg]) -> bool {
    let Some(last) = operands.len().checked_sub(words.len()) else {
        return false;
    };
    let last = if anchored { 0 } else { last };
    (0..=last).any(|start| {
        let here = operands.iter().skip(start);
        words
            .iter()
            .zip(here)
            .all(|(word, arg)| like(&arg.text, std::slice::from_ref(word)))
    })
}

// -- effects --

/// The arguments that a selection takes.
fn selected(of: &[Selection], opts: &Options, stdin: Option<&Arg>) -> Vec<Given> {
    let mut found = Vec::new();
    for one in of {
        match one {
            Selection::Option(option) => {
                let same = opts.given().iter().filter(|(name, _)| name == option);
                found.extend(same.map(|(_, value)| (*option, value.clone())));
            }
            Selection::Stdin => found.extend(stdin.map(|arg| ("stdin", arg.clone()))),
            Selection::Here => found.push(("", Arg::new("."))),
            Selection::Stem => {
                let stems = opts.operands.iter().filter_map(stem);
                found.extend(stems.map(|arg| ("", arg)));
            }
            Selection::UrlName => {
                found.extend(opts.operands.first().map(|url| ("", saved_as(url))));
            }
            place => found.extend(operands(*place, opts).iter().map(|arg| ("", arg.clone()))),
        }
    }
    found
}

/// What a compressed file is called without that ending.
fn stem(arg: &Arg) -> Option<Arg> {
    let stem = PACKED.iter().find_map(|end| arg.text.strip_suffix(end))?;
    let plain = !stem.is_empty() && !stem.ends_with('/');
    plain.then(|| arg.with_text(stem))
}

fn operands(place: Selection, opts: &Options) -> &[Arg] {
    let all = opts.operands.as_slice();
    let (start, end) = match place {
        Selection::All => (0, all.len()),
        Selection::First => (0, all.len().min(1)),
        Selection::Last => (all.len().saturating_sub(1), all.len()),
        Selection::ButLast => (0, all.len().saturating_sub(1)),
        Selection::From(start) => (start, all.len()),
        Selection::AfterDashes => (opts.cut.unwrap_or(all.len()), all.len()),
        Selection::UrlName
        | Selection::Stdin
        | Selection::Here
        | Selection::Stem
        | Selection::Option(_) => (0, 0),
    };
    all.get(start..end).unwrap_or(&[])
}

fn args(given: Vec<Given>) -> Vec<Arg> {
    given.into_iter().map(|(_, arg)| arg).collect()
}

fn tell(walk: &mut Walk, call: &Call, effect: &Effect, opts: &Options) {
    let given = selected(&effect.of, opts, call.stdin.as_ref());
    if !effect.intent.is_empty() {
        return named(walk, effect, &args(given));
    }
    match effect.act {
        "send" => sent(
            walk,
            call,
            &given,
            &args(selected(&effect.to, opts, None)),
            &effect.files,
        ),
        "fetch" => fetched(walk, &args(given)),
        "run" => {
            for code in args(given) {
                // `!rm x`: a tool's way to the shell
                let plain = code.text.strip_prefix('!').map(|text| code.with_text(text));
                walk.code(plain.unwrap_or(code), &call.program, None);
            }
        }
        "line" | "spawn" => spawned(walk, call, effect.act, args(given)),
        "secret" => {
            walk.secrets += 1;
            walk.give(Finding::new("secret.read", effect.target, "cloud"));
        }
        _ => {
            for arg in args(given) {
                if !matches!(arg.text.as_str(), "" | "-") {
                    path(walk, call, effect, opts, &arg);
                }
            }
        }
    }
}

/// A command of its own, or the words of a text that a shell runs; perhaps behind a `--`; what it would do is told by the walk itself.
fn spawned(walk: &mut Walk, call: &Call, act: &str, mut argv: Vec<Arg>) {
    if argv.first().is_some_and(|first| first.text == "--") {
        argv.remove(0);
    }
    if argv.is_empty() {
        return;
    }
    if act == "line" {
        walk.code(Arg::new(spaced(&argv)), &call.program, None);
    } else {
        walk.execute(argv, call.stdin.clone(), false);
    }
}

fn named(walk: &mut Walk, effect: &Effect, given: &[Arg]) {
    if given.is_empty() && effect.only.is_empty() {
        let scope = match effect.scope {
            "place" => "unknown",
            "host" => "remote",
            scope => scope,
        };
        walk.give(Finding::new(effect.intent, effect.target, scope));
    }
    for arg in given {
        if effect.scope == "host" {
            walk.give(Finding::new(
                effect.intent,
                host(&arg.text),
                scope_of(&arg.text),
            ));
            continue;
        }
        let place = walk.place(arg);
        let counts = effect.only.contains(&place.scope)
            || (effect.only.contains(&"device") && is_disk(&place.path));
        if !effect.only.is_empty() && !counts {
            continue;
        }
        walk.give(if effect.scope == "place" {
            Finding::new(effect.intent, place.path, place.scope)
        } else {
            Finding::new(effect.intent, arg.text.as_str(), effect.scope)
        });
    }
}

fn switched(switch: &Switch, opts: &Options) -> bool {
    match switch {
        Switch::Fixed(fixed) => *fixed,
        Switch::With(names) => given(opts, names),
    }
}

/// The acts on paths.
fn path(walk: &mut Walk, call: &Call, effect: &Effect, opts: &Options, arg: &Arg) {
    let recursive = switched(&effect.recursive, opts);
    let found = match effect.act {
        "read" => return walk.read(arg, &call.program),
        "list" => return walk.listed(arg, &call.program),
        "fill" => return filled(walk, arg, &call.program),
        "write" => return write(walk, call, effect, opts, arg),
        "delete" => deleted(walk, arg, recursive),
        "move" => moved(walk, arg),
        "sweep" => swept(walk, arg),
        "link" => linked(walk, arg),
        _ => {
            let mode = opts.operands.first().map_or("", |mode| mode.text.as_str());
            permitted(walk, call, arg, mode, recursive)
        }
    };
    for finding in found {
        walk.give(finding);
    }
}

fn write(walk: &mut Walk, call: &Call, effect: &Effect, opts: &Options, target: &Arg) {
    let net = effect.content == "net";
    if net && matches!(target.text.as_str(), "/dev/null" | "/dev/stdout") {
        return;
    }
    walk.written(target, &call.program, switched(&effect.append, opts));
    if net {
        walk.remember(target, Arg::unknown_from("net"));
    } else if effect.content == "stdin" {
        if let Some(stdin) = &call.stdin {
            walk.remember(target, stdin.clone());
        }
    }
    if !effect.source.is_empty() {
        let sources = args(selected(&effect.source, opts, None));
        arrives(walk, &sources, target, &call.program);
    }
}
