//! The shell parser: structure, bounds, and no input that panics; the cases of `tests/unit/test_shell_parse.py`.

use std::time::{Duration, Instant};

use interlock_engine::analysis::parser::parse;
use interlock_engine::analysis::tree::{Node, Part, Redirect, Script, Var, Word};

const MAX_LENGTH: usize = 64 * 1024;
const MAX_DEPTH: usize = 50;
const MAX_COMMANDS: usize = 2000;
const SOON: Duration = Duration::from_secs(3); // a tenth of it here; the rest is room for a busy machine

fn node(script: &Script) -> Option<&Node> {
    script.items.first().map(|item| &item.node)
}

fn text(word: &Word) -> String {
    word.iter()
        .filter_map(|part| match part {
            Part::Lit { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// The words of a command where it is a simple one.
fn words_of(node: Option<&Node>) -> Vec<Word> {
    match node {
        Some(Node::Simple(simple)) => simple.words.clone(),
        _ => Vec::new(),
    }
}

fn redirects_of(node: Option<&Node>) -> Vec<Redirect> {
    match node {
        Some(Node::Simple(simple)) => simple.redirects.clone(),
        _ => Vec::new(),
    }
}

fn body(redirects: &[Redirect], at: usize) -> Option<Word> {
    redirects.get(at)?.body.as_ref()?.get().cloned()
}

/// The literal text of the words of the first command.
fn words(command: &str) -> Vec<String> {
    words_of(node(&parse(command))).iter().map(text).collect()
}

fn kind(node: &Node) -> &'static str {
    match node {
        Node::Simple(_) => "simple",
        Node::Pipe(_) => "pipe",
        Node::Group { .. } => "group",
        Node::Loop(_) => "loop",
        Node::If { .. } => "if",
        Node::Case(_) => "case",
        Node::Function { .. } => "function",
        Node::Condition { .. } => "condition",
    }
}

#[test]
fn quotes_and_escapes_are_taken_out_and_words_stay_whole() {
    let found = words(r#"a 'b c' "d e" f\ g h''i "j"k"#);
    assert_eq!(found, ["a", "b c", "d e", "f g", "hi", "jk"]);
    assert_eq!(words(r"$'\x72\155' $'a\tb' $'\u0041'"), ["rm", "a\tb", "A"]);
}

#[test]
fn operators_separate_commands_without_blanks() {
    let script = parse("a&&b||c;d&e\nf|g");
    let ops: Vec<&str> = script.items.iter().map(|item| item.op).collect();
    assert_eq!(ops, ["&&", "||", ";", "&", "\n", ""]);
    assert_eq!(
        script.items.last().map(|item| kind(&item.node)),
        Some("pipe")
    );
}

#[test]
fn a_comment_ends_at_the_line_and_a_hash_inside_a_word_is_text() {
    let script = parse("a b#c # d; e\nf");
    assert_eq!(words("a b#c # d; e\nf"), ["a", "b#c"]);
    assert_eq!(script.items.len(), 2);
}

#[test]
fn each_compound_form_is_read_whole() {
    let forms = [
        ("(a; b)", "group"),
        ("{ a; b; }", "group"),
        ("if a; then b; elif c; then d; else e; fi", "if"),
        ("while a; do b; done", "loop"),
        ("until a; do b; done", "loop"),
        ("for x in 1 2; do b; done", "loop"),
        ("for ((i=0; i<3; i++)); do b; done", "loop"),
        ("for x; do b; done", "loop"),
        ("case $x in a|b) c;; (d) e;& *) f;; esac", "case"),
        ("f() { a; }", "function"),
        ("function f { a; }", "function"),
        ("f() ( a )", "function"),
        ("[[ a =~ (b|c) && -f x ]]", "condition"),
        ("((i++))", "condition"),
    ];
    for (command, expected) in forms {
        let script = parse(command);
        let kinds: Vec<&str> = script.items.iter().map(|item| kind(&item.node)).collect();
        assert_eq!((script.partial, kinds), ("", vec![expected]), "{command}");
    }
}

#[test]
fn reserved_words_are_words_where_no_command_begins() {
    let expected = ["echo", "if", "then", "done", "{", "}"];
    assert_eq!(words("echo if then done { }"), expected);
    assert_eq!(words("done2 x"), ["done2", "x"]);
}

#[test]
fn arithmetic_is_told_from_a_subshell_in_a_substitution() {
    let script = parse("echo $((1 + 2)) $((rm x) )");
    let parts: Vec<Part> = words_of(node(&script)).into_iter().flatten().collect();
    assert!(matches!(
        parts.as_slice(),
        [Part::Lit { .. }, Part::Arith(_), Part::Sub { .. }]
    ));
}

#[test]
fn heredocs_are_read_in_order_after_their_line() {
    let script = parse("cat <<A <<'B' | sh\n$x\nA\n$y\nB\n");
    let Some(Node::Pipe(stages)) = node(&script) else {
        unreachable!("the command is a pipe");
    };
    let redirects = redirects_of(stages.first());
    let var = Part::Var(Box::new(Var {
        name: "x".to_owned(),
        op: "",
        arg: Vec::new(),
        quoted: true,
    }));
    assert_eq!(body(&redirects, 0), Some(vec![var, Part::lit("\n", true)]));
    assert_eq!(body(&redirects, 1), Some(vec![Part::lit("$y\n", true)]));
}

#[test]
fn a_heredoc_with_a_dash_drops_tabs_and_its_end_may_be_indented() {
    let script = parse("cat <<-E\n\tone\n\tE\necho two");
    let redirects = redirects_of(node(&script));
    assert_eq!(body(&redirects, 0), Some(vec![Part::lit("one\n", true)]));
}

#[test]
fn an_apostrophe_in_a_heredoc_inside_a_substitution_is_text() {
    let script = parse("gh pr create --body \"$(cat <<'EOF'\nit's fine\nEOF\n)\"; next");
    assert_eq!((script.partial, script.items.len()), ("", 2));
}

#[test]
fn what_cannot_be_read_whole_is_partial() {
    let cases = [
        ("a".repeat(MAX_LENGTH + 1), "too long"),
        ("$(".repeat(MAX_DEPTH + 1), "too deep"),
        ("{ ".repeat(MAX_DEPTH + 5), "too deep"),
        ("a;".repeat(MAX_COMMANDS + 1), "too many commands"),
        (
            ") ".to_owned() + &"a;".repeat(MAX_COMMANDS + 1),
            "too many commands",
        ),
        ("echo 'a".to_owned(), "unclosed quote"),
        ("echo \"a".to_owned(), "unclosed quote"),
        ("echo ${a".to_owned(), "unclosed brace"),
        ("if a; then b".to_owned(), "syntax"),
        ("a )".to_owned(), "syntax"),
    ];
    for (command, why) in cases {
        assert_eq!(
            parse(&command).partial,
            why,
            "{}",
            command.get(..20).unwrap_or(&command)
        );
    }
    assert_eq!(parse(&"ä".repeat(MAX_LENGTH)).partial, "");
}

#[test]
fn commands_before_and_after_a_stray_token_are_still_found() {
    let script = parse("a ) b\nc");
    assert_eq!((script.partial, script.items.len()), ("syntax", 3));
}

#[test]
fn blanks_of_unicode_inside_an_array_separate_nothing() {
    assert_eq!(parse("x=(\u{3000})").partial, "");
}

#[rustfmt::skip]
const HOSTILE: &[&str] = &[
    "$(", "`", "\\`", "((", "$((", "$((1", "${", "${x:-", "{ ", "<<a\n", "'", "\"$(", "a;", "[[ ", "f() ", "! ",
    "if x; then ", "case x in ", "case x in a) ", "for x in a; do ", "<(", "x=(", "\\", "@(", "a|", "(", "}\n",
    "x=(\u{a0}", "é", "\u{1c}", "{a,", "$'\\x", "${x[",
];

#[test]
fn sixty_four_kilobytes_of_anything_are_read_in_bounded_time() {
    for unit in HOSTILE {
        let text: String = unit.chars().cycle().take(MAX_LENGTH).collect();
        let began = Instant::now();
        let partial = parse(&text).partial;
        assert!(began.elapsed() < SOON, "{unit} {partial}");
    }
}

/// Texts of fragments in an order that a small generator of numbers gives, so that each run has the same.
fn fragments(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    for _ in 0..seed % 60 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let pick = usize::try_from(state >> 33).unwrap_or(0);
        let extra = [
            "a", "|", "&", ")", "}", "\n", "E\n", "<<E", " ", ">", "=", "fi", "esac", "\"", "do ",
        ];
        let all = HOSTILE.len() + extra.len();
        let piece = HOSTILE.iter().chain(&extra).nth(pick % all);
        text.push_str(piece.unwrap_or(&""));
    }
    text
}

#[test]
fn no_text_makes_the_parser_panic_and_each_fault_has_a_name() {
    let faults = ["", "too deep", "unclosed quote", "unclosed brace", "syntax"];
    for seed in 0..3000 {
        let script = parse(&fragments(seed));
        assert!(faults.contains(&script.partial));
    }
}
