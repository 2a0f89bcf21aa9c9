//! Reading shell words: quoting, `$`-expansions, substitutions and here-document bodies, in one pass.
//!
//! Every step moves forward and nothing is read twice, but for backticks and here-documents (whose text is unescaped
//! first) and the look-ahead that tells `$((` from `$( (`; all three are bounded by the depth limit.

use std::cell::OnceCell;
use std::rc::Rc;

use super::scan;
use super::tree::{Part, Word};
use super::values::length;

/// Characters of one command.
pub const MAX_LENGTH: usize = 64 * 1024;
/// Substitutions and compound commands inside each other.
pub const MAX_DEPTH: u32 = 50;
/// Simple commands in one text.
pub const MAX_COMMANDS: u32 = 2000;

const READ_COST: usize = 64; // of an inner text beside its characters
const MAX_INNER: usize = 256 * 1024; // characters of backticks, arithmetic and here-documents, read once more

/// The reasons for a partial view that are bounds of ours; the others are faults of the text.
pub(crate) const LIMITS: &[&str] = &["too long", "too deep", "too many commands"];

/// Of two reasons why a view is partial: a limit before a fault of the text, else the one known first.
pub(crate) fn graver(known: &'static str, new: &'static str) -> &'static str {
    if known.is_empty() || (LIMITS.contains(&new) && !LIMITS.contains(&known)) {
        new
    } else {
        known
    }
}

/// What one whole parse may use, shared by the readers of its inner texts.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) commands: u32,
    inner: usize,
    /// The gravest reason to be partial so far, "" for none.
    pub(crate) partial: &'static str,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            commands: MAX_COMMANDS,
            inner: MAX_INNER,
            partial: "",
        }
    }

    pub(crate) fn give_up(&mut self, reason: &'static str) {
        self.partial = graver(self.partial, reason);
    }

    /// Whether an inner text may still be read; one that may not makes the parse partial.
    pub(crate) fn reads(&mut self, text: &str) -> bool {
        let left = self.inner.checked_sub(READ_COST + length(text));
        if left.is_none() {
            self.give_up("too long");
        }
        self.inner = left.unwrap_or(0);
        left.is_some()
    }
}

/// A here-document that a line has named and whose body follows the line.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) body: Rc<OnceCell<Word>>,
    pub(crate) delimiter: String,
    pub(crate) quoted: bool,
    pub(crate) strip: bool,
}

/// Reads words, and in `parser` commands, from a text at the byte `i`.
#[derive(Debug)]
pub(crate) struct Reader<'t, 'b> {
    pub(crate) text: &'t str,
    pub(crate) n: usize,
    pub(crate) i: usize,
    pub(crate) budget: &'b mut Budget,
    pub(crate) depth: u32,
    pub(crate) pending: Vec<Pending>,
    pub(crate) closer: &'static str,
    pub(crate) unclosed_arith: bool,
}

impl<'t, 'b> Reader<'t, 'b> {
    pub(crate) fn new(text: &'t str, budget: &'b mut Budget, depth: u32) -> Self {
        Self {
            text,
            n: text.len(),
            i: 0,
            budget,
            depth,
            pending: Vec::new(),
            closer: "",
            unclosed_arith: false,
        }
    }

    /// A reader of an inner text, one level deeper.
    pub(crate) fn fresh<'s>(&'s mut self, text: &'s str) -> Reader<'s, 's> {
        Reader::new(text, self.budget, self.depth + 1)
    }

    /// The text from the byte at `from` on; nothing past the end.
    pub(crate) fn rest(&self, from: usize) -> &'t str {
        self.text.get(from..).unwrap_or("")
    }

    pub(crate) fn slice(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to.min(self.n)).unwrap_or("")
    }

    /// The byte at a place, 0 past the end.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    pub(crate) fn char_at(&self, at: usize) -> Option<char> {
        self.rest(at).chars().next()
    }

    pub(crate) fn at_end(&self) -> bool {
        self.i >= self.n
    }

    /// One character on.
    pub(crate) fn step(&mut self) {
        self.i += self.char_at(self.i).map_or(1, char::len_utf8);
    }

    /// Give up the rest of the text; every loop ends at the end of the text.
    pub(crate) fn stop(&mut self, reason: &'static str) {
        self.budget.give_up(reason);
        self.i = self.n;
    }

    /// Go one level deeper, or give up the rest of the text where that is too deep.
    pub(crate) fn deepen(&mut self) {
        if self.depth >= MAX_DEPTH {
            self.stop("too deep");
        }
        self.depth += 1;
    }

    /// The place after the next `sign` from `from` on, None where there is none.
    pub(crate) fn after(&self, from: usize, sign: char) -> Option<usize> {
        self.rest(from).find(sign).map(|at| from + at + 1)
    }

    // -- blanks and words -------------------------------------------------------------------------------------------

    pub(crate) fn skip_blanks(&mut self) {
        self.i = scan::blanks_end(self.text, self.i);
        if self.byte(self.i) == b'#' {
            self.i = self.after(self.i, '\n').map_or(self.n, |end| end - 1);
        }
    }

    /// The word at `self.i`, empty where there is none. In `[[ ]]`, operators are words of their own.
    pub(crate) fn word(&mut self, in_test: bool) -> Word {
        let mut parts = Word::new();
        while !self.at_end() {
            let end = scan::plain_end(self.text, self.i);
            if end > self.i {
                parts.push(Part::lit(self.slice(self.i, end), false));
                self.i = end;
                continue;
            }
            let c = self.byte(self.i);
            if matches!(c, b'<' | b'>') && self.byte(self.i + 1) == b'(' {
                let part = self.process(c == b'>');
                parts.push(part);
            } else if let (b'(', Some(sign)) = (c, extends(parts.last())) {
                let part = self.paren_part(sign);
                parts.push(part);
            } else if matches!(c, b'\'' | b'"' | b'\\' | b'$' | b'`') {
                self.quoted_or_dollar(c, &mut parts);
            } else {
                break;
            }
        }
        if in_test
            && parts.is_empty()
            && !self.at_end()
            && !matches!(self.byte(self.i), b' ' | b'\t' | b'\n')
        {
            let start = self.i;
            self.step();
            parts.push(Part::lit(self.slice(start, self.i), false));
        }
        parts
    }

    pub(crate) fn quoted_or_dollar(&mut self, c: u8, parts: &mut Word) {
        match c {
            b'\'' => {
                let text = self.single_quoted();
                parts.push(Part::lit(text, true));
            }
            b'"' => {
                self.i += 1;
                self.double_quoted(parts, Some('"'));
            }
            b'\\' => self.backslash(parts),
            b'$' => self.dollar(parts, false),
            _ => {
                let part = self.backtick(false);
                parts.push(part);
            }
        }
    }

    fn backslash(&mut self, parts: &mut Word) {
        self.i += 1;
        let Some(following) = self.char_at(self.i) else {
            parts.push(Part::lit("\\", true));
            return;
        };
        self.i += following.len_utf8();
        if following != '\n' {
            parts.push(Part::lit(following, true));
        }
    }

    /// `(` after the sign that a word ends with: an array after `=`, else an extended glob.
    fn paren_part(&mut self, sign: char) -> Part {
        if sign == '=' {
            return Part::Array(self.array());
        }
        let start = self.i;
        if let Some(end) = self.balanced(start) {
            self.i = end;
            return Part::lit("*", false);
        }
        self.i = self.n;
        Part::lit(self.rest(start), false)
    }

    fn array(&mut self) -> Vec<Word> {
        self.i += 1;
        let mut words = Vec::new();
        self.deepen();
        while !self.at_end() && self.byte(self.i) != b')' {
            self.skip_blanks();
            if matches!(
                self.byte(self.i),
                b'\n' | b'|' | b'&' | b';' | b'<' | b'>' | b'('
            ) {
                self.i += 1;
                continue;
            }
            let before = self.i;
            let word = self.word(false);
            if !word.is_empty() {
                words.push(word);
            } else if self.i == before && self.byte(before) != b')' {
                self.step(); // a blank that separates no words
            }
        }
        self.depth -= 1;
        self.i += 1;
        words
    }

    fn single_quoted(&mut self) -> &'t str {
        let start = self.i + 1;
        if let Some(end) = self.after(start, '\'') {
            self.i = end;
            return self.slice(start, end - 1);
        }
        self.budget.give_up("unclosed quote");
        self.i = self.n;
        self.rest(start)
    }

    /// The place of the first `sign` from `from` on that no backslash stands before; the end or more where there is
    /// none.
    pub(crate) fn unescaped(&self, from: usize, sign: u8) -> usize {
        let mut at = from;
        while at < self.n && self.byte(at) != sign {
            at += if self.byte(at) == b'\\' { 2 } else { 1 };
        }
        at
    }

    /// After `$'`: up to the quote that is not escaped.
    pub(crate) fn ansi(&mut self) -> String {
        let start = self.i;
        let end = self.unescaped(start, b'\'');
        if end >= self.n {
            self.budget.give_up("unclosed quote");
        }
        self.i = end + 1;
        scan::ansi_c(self.slice(start, end)).into_owned()
    }

    /// Double-quoted text up to `end` (None for a here-document: to its end); no text leaves an empty part.
    pub(crate) fn double_quoted(&mut self, parts: &mut Word, end: Option<char>) {
        let before = parts.len();
        while !self.at_end() {
            let plain = scan::quoted_plain_end(self.text, self.i, end.is_some());
            if plain > self.i {
                parts.push(Part::lit(self.slice(self.i, plain), true));
                self.i = plain;
                continue;
            }
            match self.byte(self.i) {
                b'"' => break,
                b'\\' => {
                    let part = self.escaped(end);
                    parts.push(part);
                }
                b'$' => self.dollar(parts, true),
                _ => {
                    let part = self.backtick(true);
                    parts.push(part);
                }
            }
        }
        if end.is_some() && self.at_end() {
            self.budget.give_up("unclosed quote");
        }
        self.i += 1;
        if parts.len() == before {
            parts.push(Part::lit("", true));
        }
    }

    /// A backslash inside double quotes or a here-document.
    fn escaped(&mut self, end: Option<char>) -> Part {
        let following = self.char_at(self.i + 1);
        self.i += 1 + following.map_or(1, char::len_utf8);
        match following {
            Some('\n') => Part::lit("", true),
            Some(c) if matches!(c, '$' | '`' | '\\') || following == end => Part::lit(c, true),
            Some(c) => Part::lit(format!("\\{c}"), true),
            None => Part::lit(if end.is_some() { "\\" } else { "" }, true),
        }
    }

    // -- here-documents ---------------------------------------------------------------------------------------------

    /// After a newline: the bodies of the here-documents that the line named, in order.
    pub(crate) fn read_bodies(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let body = self.body(&pending);
            let word = if pending.quoted {
                vec![Part::lit(body, true)]
            } else {
                self.inner_word(&body)
            };
            // A here-document is named once, so its body is set once.
            let _ = pending.body.set(word);
        }
    }

    /// The lines up to the delimiter, which is consumed.
    fn body(&mut self, pending: &Pending) -> String {
        let mut body = String::new();
        while !self.at_end() {
            let end = self.after(self.i, '\n').map_or(self.n, |after| after - 1);
            let mut line = self.slice(self.i, end);
            self.i = (end + 1).min(self.n);
            if pending.strip {
                line = line.trim_start_matches('\t');
            }
            if line.trim_end_matches('\r') == pending.delimiter {
                break;
            }
            body.push_str(line);
            body.push('\n');
        }
        body
    }
}

/// The sign at a word's end after which `(` goes on the word: an array after `=`, an extended glob after one of ?*+@!.
fn extends(last: Option<&Part>) -> Option<char> {
    match last {
        Some(Part::Lit {
            text,
            quoted: false,
        }) => text
            .chars()
            .next_back()
            .filter(|c| matches!(c, '=' | '?' | '*' | '+' | '@' | '!')),
        _ => None,
    }
}
