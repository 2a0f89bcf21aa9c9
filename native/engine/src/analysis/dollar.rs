//! Reading what follows a dollar or a backtick: parameters, substitutions, arithmetic.

use super::scan::{self, braced_name_end, name_end, operator};
use super::tree::{Part, Script, Var, Word};
use super::values::is_space;
use super::words::{Reader, MAX_DEPTH};

impl Reader<'_, '_> {
    pub(crate) fn dollar(&mut self, parts: &mut Word, quoted: bool) {
        let part = match self.byte(self.i + 1) {
            b'(' => self.paren(quoted),
            b'{' => self.braced(quoted),
            b'\'' if !quoted => {
                self.i += 2;
                Part::lit(self.ansi(), true)
            }
            b'"' if !quoted => {
                self.i += 2;
                return self.double_quoted(parts, Some('"'));
            }
            b'[' => {
                self.i = self.after(self.i, ']').unwrap_or(self.n);
                Part::Arith(Word::new())
            }
            _ => self.named(quoted),
        };
        parts.push(part);
    }

    /// `$name`, `$1`, `$?`; a dollar that names nothing is text.
    fn named(&mut self, quoted: bool) -> Part {
        let start = self.i + 1;
        let end = name_end(self.text, start);
        self.i = end;
        if end == start {
            return Part::lit("$", quoted);
        }
        var(self.slice(start, end), "", Word::new(), quoted)
    }

    /// `$(...)` or `$((...))`; a text that could be either is read as commands.
    fn paren(&mut self, quoted: bool) -> Part {
        if self.byte(self.i + 2) == b'(' {
            let inner_start = self.i + 3;
            if let Some(end) = self.balanced(self.i + 1) {
                if self.balanced(self.i + 2) == Some(end - 1) {
                    let inner = self.slice(inner_start, end - 2);
                    self.i = end;
                    return Part::Arith(self.inner_word(inner));
                }
            }
        }
        self.i += 2;
        Part::Sub {
            script: self.nested(),
            quoted,
        }
    }

    pub(crate) fn process(&mut self, writes: bool) -> Part {
        self.i += 2;
        Part::Proc {
            script: self.nested(),
            writes,
        }
    }

    /// The substitutions of an arithmetic text or the parts of an unquoted here-document's body.
    pub(crate) fn inner_word(&mut self, text: &str) -> Word {
        if !text.bytes().any(|b| matches!(b, b'$' | b'`' | b'\\')) {
            return vec![Part::lit(text, true)];
        }
        if self.depth >= MAX_DEPTH {
            self.budget.give_up("too deep");
            return vec![Part::lit(text, true)];
        }
        if !self.budget.reads(text) {
            return vec![Part::lit(text, true)];
        }
        let mut parts = Word::new();
        self.fresh(text).double_quoted(&mut parts, None);
        parts
    }

    /// The place after the `)` that closes the `(` at `start`, None where none does; quotes are stepped over.
    pub(crate) fn balanced(&mut self, start: usize) -> Option<usize> {
        if self.unclosed_arith {
            return None;
        }
        let mut level = 0_usize;
        let mut at = start;
        while at < self.n {
            let c = self.byte(at);
            at += 1;
            match c {
                b'(' => level += 1,
                b')' if level <= 1 => return Some(at),
                b')' => level -= 1,
                b'\\' => at += 1,
                b'\'' => at = self.closing(at, b'\''),
                b'"' => at = self.closing(at, b'"'),
                _ => {}
            }
        }
        self.unclosed_arith = true;
        None
    }

    /// The place after the next `quote`, the end where there is none.
    fn closing(&self, from: usize, quote: u8) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or(&[]);
        let found = rest.iter().position(|b| *b == quote);
        found.map_or(self.n, |at| from + at + 1)
    }

    /// `${name}`, `${name op word}`, `${#name}`, `${!name}`; forms that we do not know give an unknown.
    fn braced(&mut self, quoted: bool) -> Part {
        self.i += 2;
        let prefix = scan::prefix(self.text, self.i);
        self.i += usize::from(prefix.is_some());
        let start = self.i;
        self.i = braced_name_end(self.text, start);
        let named = self.i > start;
        let mut end = self.i;
        if self.byte(self.i) == b'[' {
            if let Some(after) = self.subscript_end() {
                end = after;
                self.i = after;
            }
        }
        let name = self.slice(start, end);
        let op = operator(self.rest(self.i));
        self.i += op.len();
        self.deepen();
        let arg = self.braced_word(quoted);
        self.depth -= 1;
        match prefix {
            _ if !named && name.is_empty() => var("", "", Word::new(), quoted),
            Some('#') => var(name, "len", Word::new(), quoted),
            Some(_) => var(name, "!", arg, quoted),
            None => var(name, op, arg, quoted),
        }
    }

    /// The place after `[...]` without a blank.
    fn subscript_end(&self) -> Option<usize> {
        let inside = self.i + 1;
        let rest = self.rest(inside);
        let at = rest.find(|c: char| c == ']' || is_space(c))?;
        (self.byte(inside + at) == b']').then_some(inside + at + 1)
    }

    /// The operand up to the closing brace, which is consumed.
    fn braced_word(&mut self, quoted: bool) -> Word {
        let mut parts = Word::new();
        let mut level = 0_i64;
        while !self.at_end() {
            let end = scan::brace_plain_end(self.text, self.i);
            if end > self.i {
                parts.push(Part::lit(self.slice(self.i, end), quoted));
                self.i = end;
                continue;
            }
            match self.byte(self.i) {
                b'}' if level == 0 => {
                    self.i += 1;
                    return parts;
                }
                b'{' => {
                    level += 1;
                    self.i += 1;
                    parts.push(Part::lit('{', quoted));
                }
                b'}' => {
                    level -= 1;
                    self.i += 1;
                    parts.push(Part::lit('}', quoted));
                }
                b'\'' if quoted => {
                    self.i += 1;
                    parts.push(Part::lit('\'', true));
                }
                c => self.quoted_or_dollar(c, &mut parts),
            }
        }
        self.budget.give_up("unclosed brace");
        parts
    }

    pub(crate) fn backtick(&mut self, quoted: bool) -> Part {
        let start = self.i + 1;
        let end = self.unescaped(start, b'`');
        let raw = self.slice(start, end);
        if end >= self.n {
            self.budget.give_up("unclosed quote");
        }
        self.i = end + 1;
        if self.depth >= MAX_DEPTH {
            self.budget.give_up("too deep");
            return Part::Sub {
                script: Script::default(),
                quoted,
            };
        }
        if !self.budget.reads(raw) {
            return Part::Sub {
                script: Script::default(),
                quoted,
            };
        }
        let inner = scan::without_escapes(raw, quoted);
        Part::Sub {
            script: self.fresh(&inner).whole(),
            quoted,
        }
    }
}

fn var(name: &str, op: &'static str, arg: Word, quoted: bool) -> Part {
    Part::Var(Box::new(Var {
        name: name.to_owned(),
        op,
        arg,
        quoted,
    }))
}
