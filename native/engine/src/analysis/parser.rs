//! A bounded parser of POSIX sh, bash and zsh commands as agents write them.
//!
//! It runs in time linear in the text (times the nesting depth). What it cannot read is skipped and said in
//! `Script::partial`: "too long", "too deep", "too many commands", "unclosed quote", "unclosed brace", "syntax".
//! Quoted text stays text: only what a shell would run becomes a command.

use std::cell::OnceCell;
use std::rc::Rc;

use super::scan::variable_end;
use super::tree::{Assign, Item, Node, Part, Redirect, Script, Simple, Word};
use super::values::{is_space, truncated, without_marks};
use super::words::{Budget, Pending, Reader, MAX_LENGTH};

/// Reserved words, longest first where one starts another.
const RESERVED: &[&str] = &[
    "case", "coproc", "done", "do", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while",
];
const REDIRECTS: &[&str] = &[
    "<<<", "<<-", "<<", "<>", "<&", ">&", ">>", ">|", "&>>", "&>", ">", "<",
];

/// The commands that a shell would find in `command`; a text over 64 KB is read up to there and is partial.
#[must_use]
pub fn parse(command: &str) -> Script {
    parse_marked(&without_marks(command))
}

/// The same for a text that an analysis made itself, in which unknown parts are marked (see `values`).
#[must_use]
pub fn parse_marked(command: &str) -> Script {
    let mut budget = Budget::new();
    let text = truncated(command, MAX_LENGTH);
    if text.len() < command.len() {
        budget.give_up("too long");
    }
    let script = Reader::new(text, &mut budget, 0).whole();
    Script {
        items: script.items,
        partial: budget.partial,
    }
}

impl Reader<'_, '_> {
    /// Parse all of this reader's text.
    pub(crate) fn whole(&mut self) -> Script {
        let mut items = Vec::new();
        while !self.at_end() {
            self.list(&mut items, &[]);
            if !self.at_end() {
                // a `)`, `}` or reserved word that nothing opened
                self.budget.give_up("syntax");
                self.step();
            }
        }
        Script { items, partial: "" }
    }

    /// Parse to the matching `)`, which is consumed.
    pub(crate) fn nested(&mut self) -> Script {
        // A newline in here does not begin the outer line's here-documents.
        let outer = std::mem::take(&mut self.pending);
        let script = self.deeper(&[]);
        while !self.at_end() && self.byte(self.i) != b')' {
            self.budget.give_up("syntax");
            self.step();
            if !self.at_end() {
                self.deeper(&[]);
            }
        }
        if self.at_end() {
            self.budget.give_up("syntax");
        }
        self.i += 1;
        self.pending.splice(0..0, outer);
        script
    }

    /// A list one level deeper.
    pub(crate) fn deeper(&mut self, stops: &[&str]) -> Script {
        let mut items = Vec::new();
        self.deeper_into(&mut items, stops);
        Script { items, partial: "" }
    }

    pub(crate) fn deeper_into(&mut self, items: &mut Vec<Item>, stops: &[&str]) {
        self.deepen();
        if !self.at_end() {
            self.list(items, stops);
        }
        self.depth -= 1;
    }

    // -- lists and pipelines ----------------------------------------------------------------------------------------

    /// Commands up to the end, a `)`, `;;` or a reserved word in `stops` at command position (not consumed).
    fn list(&mut self, items: &mut Vec<Item>, stops: &[&str]) {
        loop {
            self.skip_newlines();
            if self.at_end() || self.byte(self.i) == b')' || self.starts(";;") {
                break;
            }
            if !stops.is_empty() && stops.contains(&self.peek_reserved()) {
                break;
            }
            let before = self.i;
            let node = self.pipeline(stops);
            let op = self.separator();
            if let Some(node) = node {
                items.push(Item { node, op });
            }
            if self.i == before {
                break;
            }
        }
    }

    pub(crate) fn starts(&self, text: &str) -> bool {
        self.rest(self.i).starts_with(text)
    }

    pub(crate) fn skip_newlines(&mut self) {
        loop {
            self.skip_blanks();
            if self.byte(self.i) != b'\n' {
                return;
            }
            self.i += 1;
            self.read_bodies();
        }
    }

    /// The operator after a command; `;;` is left for `case`.
    fn separator(&mut self) -> &'static str {
        self.skip_blanks();
        let op = match (self.byte(self.i), self.byte(self.i + 1)) {
            (b'&', b'&') => "&&",
            (b'|', b'|') => "||",
            (b';', b';' | b'&') => return "",
            (b'|', b'&') => "|&",
            (b';', _) => ";",
            (b'&', _) => "&",
            (b'|', _) => "|",
            (b'\n', _) => "\n",
            _ => return "",
        };
        self.i += op.len();
        if op == "\n" {
            self.read_bodies();
        }
        op
    }

    fn pipeline(&mut self, stops: &[&str]) -> Option<Node> {
        let mut first = None;
        let mut more = Vec::new();
        loop {
            let node = self.command(stops);
            match node {
                Some(node) if first.is_none() => first = Some(node),
                Some(node) => more.push(node),
                None => {}
            }
            self.skip_blanks();
            if self.byte(self.i) != b'|' || self.byte(self.i + 1) == b'|' {
                break;
            }
            self.i += if self.byte(self.i + 1) == b'&' { 2 } else { 1 };
            self.skip_newlines();
        }
        if more.is_empty() {
            return first;
        }
        more.splice(0..0, first);
        Some(Node::Pipe(more))
    }

    // -- commands ---------------------------------------------------------------------------------------------------

    /// The reserved word at `self.i`, or "".
    pub(crate) fn peek_reserved(&self) -> &'static str {
        let rest = self.rest(self.i);
        let word = match self.byte(self.i) {
            b'[' if self.byte(self.i + 1) == b'[' => "[[",
            b'!' => "!",
            b'{' => "{",
            b'}' => "}",
            b'a'..=b'z' => {
                let reserved = RESERVED.iter().find(|word| rest.starts_with(**word));
                reserved.copied().unwrap_or("")
            }
            _ => "",
        };
        let following = self.char_at(self.i + word.len());
        let ends = following
            .is_none_or(|c| is_space(c) || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>'));
        if ends {
            word
        } else {
            ""
        }
    }

    pub(crate) fn command(&mut self, stops: &[&str]) -> Option<Node> {
        self.skip_blanks();
        if self.at_end() {
            return None;
        }
        if self.byte(self.i) == b'(' {
            return Some(self.paren_command());
        }
        let word = self.peek_reserved();
        if !word.is_empty() && stops.contains(&word) {
            return None;
        }
        match self.compound(word) {
            Some(node) => Some(node),
            None => self.simple(),
        }
    }

    pub(crate) fn redirects(&mut self) -> Vec<Redirect> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect() {
                Some(redirect) => found.push(redirect),
                None => return found,
            }
        }
    }

    fn redirect(&mut self) -> Option<Redirect> {
        let start = self.i;
        if !matches!(self.byte(start), b'0'..=b'9' | b'{' | b'<' | b'>' | b'&') {
            return None;
        }
        let at = self.descriptor_end();
        let rest = self.rest(at);
        let op = REDIRECTS
            .iter()
            .find(|op| rest.starts_with(**op))
            .copied()?;
        let end = at + op.len();
        if at == start && matches!(op, "<" | ">" | "<>") && self.byte(end) == b'(' {
            return None;
        }
        self.i = end;
        self.skip_blanks();
        let target = self.word(false);
        let mut body = None;
        if op == "<<" || op == "<<-" {
            let cell = Rc::new(OnceCell::new());
            self.pending.push(Pending {
                body: cell.clone(),
                delimiter: literal(&target),
                quoted: target
                    .iter()
                    .any(|part| matches!(part, Part::Lit { quoted: true, .. })),
                strip: op == "<<-",
            });
            body = Some(cell);
        }
        Some(Redirect {
            fd: self.slice(start, at).to_owned(),
            op: if op == "<<-" { "<<" } else { op },
            target,
            body,
        })
    }

    /// The end of `2` or `{name}` before a redirection's operator.
    fn descriptor_end(&self) -> usize {
        let start = self.i;
        if self.byte(start) == b'{' {
            let end = variable_end(self.text, start + 1);
            return if end > start + 1 && self.byte(end) == b'}' {
                end + 1
            } else {
                start
            };
        }
        let digits = (start..start + 3).take_while(|at| self.byte(*at).is_ascii_digit());
        start + digits.count()
    }

    fn simple(&mut self) -> Option<Node> {
        if self.budget.commands == 0 {
            self.stop("too many commands");
            return None;
        }
        self.budget.commands -= 1;
        let mut found = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect() {
                found.redirects.push(redirect);
                continue;
            }
            let mut word = self.word(false);
            if word.is_empty() {
                break;
            }
            if found.words.is_empty() {
                if let Some(assign) = assignment(&mut word) {
                    found.assigns.push(assign);
                    continue;
                }
            }
            found.words.push(word);
            if let [only] = found.words.as_slice() {
                if self.empty_parens() {
                    let name = literal(only);
                    return Some(self.function_body(name));
                }
            }
        }
        let nothing =
            found.assigns.is_empty() && found.words.is_empty() && found.redirects.is_empty();
        (!nothing).then_some(Node::Simple(found))
    }

    /// Step over `()` after a function's name.
    pub(crate) fn empty_parens(&mut self) -> bool {
        let blank = |at: usize| {
            let rest = self.text.as_bytes().get(at..).unwrap_or(&[]);
            at + rest
                .iter()
                .take_while(|b| matches!(b, b' ' | b'\t'))
                .count()
        };
        let open = blank(self.i);
        if self.byte(open) != b'(' {
            return false;
        }
        let close = blank(open + 1);
        let found = self.byte(close) == b')';
        if found {
            self.i = close + 1;
        }
        found
    }
}

/// The text of a word's literal parts.
pub(crate) fn literal(word: &Word) -> String {
    let mut out = String::new();
    for part in word {
        if let Part::Lit { text, .. } = part {
            out.push_str(text);
        }
    }
    out
}

/// The assignment that a word before the program name is, or None; the word's parts go into the assignment.
fn assignment(word: &mut Word) -> Option<Assign> {
    let Some(Part::Lit {
        text,
        quoted: false,
    }) = word.first()
    else {
        return None;
    };
    let name_end = variable_end(text, 0);
    if name_end == 0 {
        return None;
    }
    let mut rest = text.get(name_end..)?;
    if let Some((_, after)) = rest
        .strip_prefix('[')
        .and_then(|inside| inside.split_once(']'))
    {
        rest = after;
    }
    let append = rest.starts_with('+');
    let value = rest
        .get(usize::from(append)..)?
        .strip_prefix('=')?
        .to_owned();
    let name = text.get(..name_end)?.to_owned();
    let mut parts = std::mem::take(word);
    if value.is_empty() {
        parts.remove(0);
    } else if let Some(first) = parts.first_mut() {
        *first = Part::lit(value, false);
    }
    Some(Assign {
        name,
        value: parts,
        append,
    })
}
