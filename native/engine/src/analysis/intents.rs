//! What a tool call would do: the intents of a shell command or of a file tool, for policies to match on.
//!
//! Pure and bounded: the same event gives the same intents, nothing on disk is looked at, and no input panics.

use std::sync::LazyLock;

use super::effects::Intent;
use super::parser::parse;
use super::patterns::{stripped, Pattern};
use super::tables::TABLES;
use super::values::{after_last, truncated, without_marks, Arg, HOME};
use super::walk::{Call, Walk};
use crate::value::{Event, Phase, Value};

/// Tools whose argument is a shell command, in lower case, without the `mcp__server__` before the name.
#[rustfmt::skip]
const SHELL_TOOLS: &[&str] = &[
    "bash", "shell", "sh", "zsh", "terminal", "exec", "execute", "run", "run_shell_command", "run_command",
    "execute_command", "exec_command", "run_terminal_cmd", "run_terminal_command", "run_in_terminal", "shell_command",
    "local_shell", "container.exec", "bash_tool", "execute_bash", "execute_shell", "command", "unified_exec",
    "run_bash", "developer__shell", "shell_exec", "process", "run_script",
];
const COMMAND_ARGS: &[&str] = &[
    "command",
    "cmd",
    "commandline",
    "CommandLine",
    "script",
    "input",
    "code",
];
const CWD_ARGS: &[&str] = &["cwd", "workdir", "working_directory", "dir_path", "Cwd"];
#[rustfmt::skip]
const WRITE_TOOLS: &[&str] = &[
    "write", "edit", "multiedit", "notebookedit", "write_file", "writefile", "create_file", "edit_file", "replace",
    "str_replace_editor", "str_replace_based_edit_tool", "create", "insert", "update_file", "append_file", "save_file",
    "str_replace", "apply_diff", "write_to_file", "replace_in_file", "multi_edit", "move_file", "copy_file",
    "edit_notebook",
];
const DELETE_TOOLS: &[&str] = &[
    "delete",
    "delete_file",
    "remove_file",
    "delete_directory",
    "remove",
    "rm",
];
#[rustfmt::skip]
const READ_TOOLS: &[&str] = &[
    "read", "read_file", "readfile", "view", "cat", "open_file", "get_file_contents", "view_file",
];
#[rustfmt::skip]
const PATH_ARGS: &[&str] = &[
    "file_path", "path", "notebook_path", "filename", "file", "target_file", "absolute_path", "filePath",
    "destination", "source",
];
const PATCH_ARGS: &[&str] = &["input", "patch", "diff", "command"];
static PATCH_LINE: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"(?m)^\*\*\* (Update|Add|Delete) File: (.+)$|^\+\+\+ b/(\S+)",
        r"|^\*\*\* Move to: (.+)$",
    ))
});
const MAX_PATHS: usize = 64;
const MAX_PATCH: usize = 1 << 20;

/// What is done to the paths of a file tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Write,
    Delete,
    Read,
}

/// What the call would do, in the order it would do it; nothing for a result and for tools that we do not know.
#[must_use]
pub fn intents(event: &Event<'_>) -> Vec<Intent> {
    if event.phase != Phase::Call {
        return Vec::new();
    }
    let action = event.action.to_lowercase();
    let name = without_server(&action);
    if SHELL_TOOLS.contains(&name) || SHELL_TOOLS.contains(&after_last(name, '.')) {
        return of_command(event);
    }
    if name == "apply_patch" {
        return of_patch(event);
    }
    let deed = if WRITE_TOOLS.contains(&name) {
        Deed::Write
    } else if DELETE_TOOLS.contains(&name) {
        Deed::Delete
    } else if READ_TOOLS.contains(&name) {
        Deed::Read
    } else {
        return Vec::new();
    };
    of_paths(event, deed)
}

/// The tool's name without the `mcp__server__` before it.
fn without_server(action: &str) -> &str {
    let split = action
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"));
    match split {
        Some((server, name)) if !server.contains('\n') => name,
        _ => action,
    }
}

fn text<'e>(event: &'e Event<'_>, name: &str) -> Option<&'e str> {
    event.arg(name).and_then(Value::as_str)
}

fn of_command(event: &Event<'_>) -> Vec<Intent> {
    let given = event.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let cwd = given.or_else(|| CWD_ARGS.iter().find_map(|name| text(event, name)));
    for name in COMMAND_ARGS {
        match event.arg(name) {
            Some(Value::Str(command)) => return of_text(command, cwd, name),
            Some(Value::List(words)) if !words.is_empty() => {
                let argv: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                if let Some(argv) = argv {
                    return of_argv(&argv, cwd, name);
                }
            }
            _ => {}
        }
    }
    Vec::new()
}

fn of_text(command: &str, cwd: Option<&str>, attributed_to: &str) -> Vec<Intent> {
    let mut walk = Walk::new(&TABLES, cwd, attributed_to);
    walk.start(&parse(command));
    walk.into_found()
}

fn of_argv(argv: &[&str], cwd: Option<&str>, attributed_to: &str) -> Vec<Intent> {
    if let [command] = argv {
        return of_text(command, cwd, attributed_to);
    }
    let mut walk = Walk::new(&TABLES, cwd, attributed_to);
    walk.start_argv(
        argv.iter()
            .map(|word| Arg::new(without_marks(word)))
            .collect(),
    );
    walk.into_found()
}

/// A file tool: each path among its arguments.
fn of_paths(event: &Event<'_>, deed: Deed) -> Vec<Intent> {
    // an editor tool that reads
    let views = text(event, "command") == Some("view");
    let deed = if views { Deed::Read } else { deed };
    let mut found = Vec::new();
    for name in PATH_ARGS {
        if let Some(path) = text(event, name).filter(|path| !path.is_empty()) {
            add(&mut found, of_path(event, deed, path, name));
        }
    }
    found
}

fn of_patch(event: &Event<'_>) -> Vec<Intent> {
    let mut found = Vec::new();
    for name in PATCH_ARGS {
        let patch = truncated(text(event, name).unwrap_or(""), MAX_PATCH);
        for line in PATCH_LINE.all(patch).iter().take(MAX_PATHS) {
            let deed = if line.group(1) == Some("Delete") {
                Deed::Delete
            } else {
                Deed::Write
            };
            let target = line.group(2).or(line.group(3)).unwrap_or(line.text(4));
            add(&mut found, of_path(event, deed, stripped(target), name));
        }
    }
    found
}

/// Add what is new, in its order.
fn add(found: &mut Vec<Intent>, more: Vec<Intent>) {
    for intent in more {
        if !found.contains(&intent) {
            found.push(intent);
        }
    }
}

fn of_path(event: &Event<'_>, deed: Deed, path: &str, attributed_to: &str) -> Vec<Intent> {
    let mut walk = Walk::new(&TABLES, event.cwd.as_deref(), attributed_to);
    let path = without_marks(path).replace('\\', "/");
    let arg = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Arg::new(format!("{HOME}{rest}")),
        _ => Arg::new(path),
    };
    let program: &str = &event.action;
    match deed {
        Deed::Write => walk.written(&arg, program, false),
        Deed::Read => walk.read(&arg, program),
        Deed::Delete => {
            let call = Call {
                program: "rm".to_owned(),
                args: vec![Arg::new("--"), arg],
                stdin: None,
                path: "rm".to_owned(),
            };
            for finding in walk.collected((TABLES.programs)("rm"), &call) {
                walk.emit(finding, program);
            }
        }
    }
    walk.into_found()
}

#[cfg(test)]
mod tests {
    use super::{intents, without_server};
    use crate::value::{Event, Phase, Value};

    fn names(action: &str, args: &[(&str, &str)]) -> Vec<&'static str> {
        let args = args
            .iter()
            .map(|(k, v)| ((*k).into(), Value::Str((*v).into())));
        let event = Event {
            action: action.into(),
            args: Value::Map(args.collect()),
            phase: Phase::Call,
            principal: None,
            server_pin: None,
            links: std::collections::BTreeMap::new(),
            cwd: Some("/w".into()),
            origins: Vec::new(),
        };
        intents(&event).iter().map(|intent| intent.name).collect()
    }

    #[test]
    fn a_servers_name_is_no_part_of_the_tools() {
        assert_eq!(without_server("mcp__files__write"), "write");
        assert_eq!(without_server("mcp____write"), "write");
        assert_eq!(without_server("mcp__write"), "mcp__write");
    }

    #[test]
    fn file_tools_are_known_by_their_paths() {
        assert_eq!(names("Write", &[("file_path", "/w/x")]), ["fs.write"]);
        assert_eq!(
            names("view", &[("path", "~/.ssh/id_rsa")]),
            ["fs.read", "secret.read"]
        );
        assert_eq!(names("delete_file", &[("path", "/w/x")]), ["fs.delete"]);
        assert_eq!(
            names(
                "str_replace_editor",
                &[("command", "view"), ("path", "/w/x")]
            ),
            ["fs.read"]
        );
        let patch = "*** Delete File: a\n*** Update File: b\n";
        assert_eq!(
            names("apply_patch", &[("input", patch)]),
            ["fs.delete", "fs.write"]
        );
        assert!(names("unknown", &[("path", "/")]).is_empty());
    }
}
