//! The walk over a parsed command: what it follows, and that its bounds hold on a small stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use interlock_engine::analysis::effects::Intent;
use interlock_engine::analysis::intents::intents;
use interlock_engine::value::{Event, Phase, Value};

const SMALL_STACK: usize = 512 * 1024;
const SOON: Duration = Duration::from_secs(10); // a twentieth of it here; the rest is room for a busy machine

fn of(command: &str) -> Vec<Intent> {
    let args = vec![(Cow::Borrowed("command"), Value::Str(Cow::Borrowed(command)))];
    intents(&Event {
        action: Cow::Borrowed("Bash"),
        args: Value::Map(args),
        phase: Phase::Call,
        principal: None,
        server_pin: None,
        links: BTreeMap::new(),
        cwd: Some(Cow::Borrowed("/checkout/project")),
        origins: Vec::new(),
    })
}

fn deletes_root(command: &str) -> bool {
    of(command)
        .iter()
        .any(|intent| intent.name == "fs.delete.root")
}

fn is_partial(command: &str) -> bool {
    of(command)
        .iter()
        .any(|intent| intent.name == "exec.partial")
}

#[test]
fn values_are_followed_to_where_they_are_used() {
    let spellings = [
        "x=/; rm -rf $x",
        "x=(a /); rm -rf \"${x[1]}\"",
        "x=/etc; rm -rf \"${x%etc}\"",
        "x=//tmp; rm -rf ${x:0:1}",
        "rm -rf ${none:-/}",
        "set -- a /; rm -rf $2",
        "for d in a /; do rm -rf $d; done",
        "f() { rm -rf $1; }; f /",
        "if a; then x=/; fi; rm -rf $x",
        "x=/tmp; if a; then x=/; fi; rm -rf $x",
        "rm -rf {/,a}",
        "IFS=:; x=rm:-rf:/; $x",
        "x=r; x+=m; $x -rf /",
        "alias x='rm -rf'; x /",
        "cat > s.sh <<E\nrm -rf /\nE\nsh s.sh",
        "echo 'rm -rf /' | sh",
        "sh <(echo rm -rf /)",
        "eval $(printf '%s -rf %s' rm /)",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "(cd /; rm -rf *)",
        "case x in *) rm -rf /;; esac",
        "f() { g() { rm -rf /; }; }",
        "f() { unset g; }; g() { :; }; h() { rm -rf /; }",
        "=rm -rf /",
        "cat <<E $(\necho a)\nE\nrm -rf /",
        "r$nothing''m -rf /",
    ];
    for command in spellings {
        let found = of(command);
        let hidden = found.iter().any(|intent| intent.name == "exec.obfuscated");
        assert!(deletes_root(command) || hidden, "{command}: {found:?}");
    }
}

#[test]
fn what_a_subshell_or_a_substitution_changes_stays_inside() {
    assert!(!deletes_root("x=a; (x=/); rm -rf $x"));
    assert!(!deletes_root("x=a; y=$(x=/); rm -rf $x"));
    assert!(!deletes_root("x=a; x=/ true; rm -rf $x"));
    assert!(!deletes_root("(cd /); rm -rf *"));
}

#[test]
fn a_fault_of_the_text_does_not_hide_that_a_limit_was_met() {
    for fault in ["eval ')'", "eval '\"'", "eval '${'"] {
        assert!(is_partial(&format!(
            "{fault}; {}rm -rf /",
            "sudo ".repeat(120)
        )));
        assert!(is_partial(&format!(
            "{fault}; eval '{}rm -rf /'",
            "a;".repeat(2100)
        )));
    }
}

/// Commands that grow or nest; each ends as partial, or with what it does.
fn hostile() -> Vec<String> {
    let nested = |open: &str, inside: &str, close: &str| {
        [30, 49, 50, 100, 300].map(|n| format!("{}{inside}{}", open.repeat(n), close.repeat(n)))
    };
    let mut found: Vec<String> = Vec::new();
    found.extend(nested("$(", "rm -rf /", ")"));
    found.extend(nested("(", "rm -rf /", ")"));
    found.extend(nested("{ ", "rm -rf /", "; }"));
    found.extend(nested("sudo ", "rm -rf /", ""));
    found.extend(nested("eval ", "rm -rf /", ""));
    found.extend(nested("! ", "rm -rf /", ""));
    found.extend(nested("if a; then ", "rm -rf /;", " fi;"));
    found.extend(nested("echo ${x:-", "$(rm -rf /)", "}"));
    found.extend(nested("x=(", "$(rm -rf /)", ")"));
    found.extend(nested("$((", "$(rm -rf /)", "))"));
    found.extend(nested(
        "f='${x:-${x:-",
        "$(eval \"$f\")",
        "}}'; eval \"$f\"",
    ));
    found.extend(nested("xargs env nohup find . -exec ", "rm {}", " ;"));
    let deep = "${x:-".repeat(45) + "$(eval \"$f\")" + &"}".repeat(45);
    found.push(format!("f='{deep}'; eval \"$f\""));
    found.push("cat|".repeat(1000) + "sh");
    found.push(format!(
        "f(){{ echo {};}}; {}",
        "a ".repeat(10_000),
        "f;".repeat(3000)
    ));
    found.push(format!(
        "x={}; echo {}",
        "a".repeat(30_000),
        "$x".repeat(15_000)
    ));
    found.push(format!(
        "x='{}'; echo {}",
        "a ".repeat(15_000),
        "$x".repeat(15_000)
    ));
    found.push(format!("echo {{1..200}}{}", ",".repeat(60_000)));
    found.push("{".repeat(60_000));
    found
}

#[test]
fn hostile_commands_end_soon_on_a_small_stack() {
    let walk_all = || {
        for command in hostile() {
            let began = Instant::now();
            of(&command);
            let start: String = command.chars().take(40).collect();
            assert!(began.elapsed() < SOON, "{start}");
        }
    };
    let thread = std::thread::Builder::new()
        .stack_size(SMALL_STACK)
        .spawn(walk_all);
    assert!(thread.is_ok_and(|thread| thread.join().is_ok()));
}

#[test]
fn what_is_too_deep_or_too_much_is_said() {
    assert!(is_partial(&format!("{}rm -rf /", "sudo ".repeat(300))));
    assert!(is_partial(
        &("$(".repeat(300) + "rm -rf /" + &")".repeat(300))
    ));
    assert!(is_partial(&("a;".repeat(3000) + "rm -rf /")));
    assert!(is_partial(&format!("{} rm -rf /", "a".repeat(70_000))));
    assert!(!is_partial("rm -rf /"));
}
