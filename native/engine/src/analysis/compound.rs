//! The parser's compound commands: groups, conditions, loops, `case`, functions, tests.

use std::rc::Rc;

use super::parser::literal;
use super::tree::{Case, Item, Loop, Node, Part, Script, Simple, Word};
use super::values::is_space;
use super::words::Reader;

const COMPOUND: &[&str] = &[
    "{", "if", "while", "until", "for", "select", "case", "function", "[[", "!", "time", "coproc",
];

impl Reader<'_, '_> {
    /// Whether a reserved word opens a compound command.
    fn opens(word: &str) -> bool {
        COMPOUND.contains(&word)
    }

    /// The compound command that a reserved word at `self.i` opens, None where it opens none.
    pub(crate) fn compound(&mut self, word: &'static str) -> Option<Node> {
        if !Self::opens(word) {
            return None;
        }
        self.i += word.len();
        Some(match word {
            "{" => {
                let body = self.until(&["}"]);
                Node::Group {
                    body,
                    subshell: false,
                    redirects: self.redirects(),
                }
            }
            "if" => self.conditions(),
            "while" | "until" => self.repeated(),
            "for" | "select" => self.each(),
            "case" => self.case(),
            "function" => self.function(),
            "[[" => self.test(),
            _ => self.prefixed(),
        })
    }

    pub(crate) fn paren_command(&mut self) -> Node {
        if self.byte(self.i + 1) == b'(' {
            if let Some(end) = self.balanced(self.i) {
                if self.balanced(self.i + 1) == Some(end - 1) {
                    let inner = self.slice(self.i + 2, end - 2);
                    self.i = end;
                    let words = vec![self.inner_word(inner)];
                    return Node::Condition {
                        words,
                        redirects: self.redirects(),
                    };
                }
            }
        }
        self.i += 1;
        let body = self.nested();
        Node::Group {
            body,
            subshell: true,
            redirects: self.redirects(),
        }
    }

    /// The list up to one of `closers`, which is consumed; a stray reserved word inside is stepped over.
    fn until(&mut self, closers: &[&'static str]) -> Script {
        let mut items = Vec::new();
        loop {
            self.deeper_into(&mut items, closers);
            let word = self.peek_reserved();
            if closers.contains(&word) {
                self.closer = word;
                self.i += word.len();
                break;
            }
            self.budget.give_up("syntax");
            self.closer = "";
            if self.at_end() || self.byte(self.i) == b')' {
                break;
            }
            self.step();
        }
        Script { items, partial: "" }
    }

    fn conditions(&mut self) -> Node {
        let mut branches = vec![self.until(&["then", "fi"])];
        while matches!(self.closer, "then" | "elif" | "else") {
            branches.push(self.until(&["then", "elif", "else", "fi"]));
        }
        Node::If {
            branches,
            redirects: self.redirects(),
        }
    }

    fn repeated(&mut self) -> Node {
        let cond = self.until(&["do"]);
        let body = self.until(&["done"]);
        self.looped(String::new(), None, cond, body)
    }

    fn looped(
        &mut self,
        name: String,
        words: Option<Vec<Word>>,
        cond: Script,
        body: Script,
    ) -> Node {
        Node::Loop(Box::new(Loop {
            name,
            words,
            cond,
            body,
            redirects: self.redirects(),
        }))
    }

    fn each(&mut self) -> Node {
        self.skip_blanks();
        let mut cond = Script::default();
        let mut name = String::new();
        let mut words = Some(Vec::new());
        if self.starts("((") {
            let node = self.paren_command();
            cond.items.push(Item { node, op: ";" });
        } else {
            name = literal(&self.word(false));
            words = self.each_words();
        }
        self.skip_newlines();
        if self.byte(self.i) == b';' {
            self.i += 1;
        }
        self.skip_newlines();
        let mut closer = "done";
        if self.peek_reserved() == "do" {
            self.i += 2;
        } else if self.peek_reserved() == "{" {
            self.i += 1;
            closer = "}";
        }
        let body = self.until(&[closer]);
        self.looped(name, words, cond, body)
    }

    fn each_words(&mut self) -> Option<Vec<Word>> {
        self.skip_newlines();
        if self.peek_reserved() != "in" {
            return None;
        }
        self.i += 2;
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            let word = self.word(false);
            if word.is_empty() {
                return Some(words);
            }
            words.push(word);
        }
    }

    fn case(&mut self) -> Node {
        self.skip_blanks();
        let subject = self.word(false);
        self.skip_newlines();
        if self.peek_reserved() == "in" {
            self.i += 2;
        }
        let mut patterns = Vec::new();
        let mut bodies = Vec::new();
        loop {
            self.skip_newlines();
            if self.at_end() {
                self.budget.give_up("syntax");
                break;
            }
            if self.peek_reserved() == "esac" {
                self.i += 4;
                break;
            }
            let before = self.i;
            self.patterns(&mut patterns);
            bodies.push(self.deeper(&["esac"]));
            self.i += match (
                self.byte(self.i),
                self.byte(self.i + 1),
                self.byte(self.i + 2),
            ) {
                (b';', b';', b'&') => 3,
                (b';', b';' | b'&', _) => 2,
                _ => 0,
            };
            if self.i == before {
                self.step();
            }
        }
        Node::Case(Box::new(Case {
            subject,
            patterns,
            bodies,
            redirects: self.redirects(),
        }))
    }

    fn patterns(&mut self, found: &mut Vec<Word>) {
        while !self.at_end() {
            self.skip_newlines();
            let word = match self.byte(self.i) {
                b')' => {
                    self.i += 1;
                    break;
                }
                b'(' | b'|' => Word::new(),
                _ => self.word(false),
            };
            if word.is_empty() {
                self.step();
            } else {
                found.push(word);
            }
        }
    }

    fn function(&mut self) -> Node {
        self.skip_blanks();
        let name = literal(&self.word(false));
        self.empty_parens();
        self.function_body(name)
    }

    pub(crate) fn function_body(&mut self, name: String) -> Node {
        self.skip_newlines();
        let body = self.inner_command();
        Node::Function {
            name,
            body: Rc::new(body),
        }
    }

    /// One command one level deeper; an empty one where there is none.
    fn inner_command(&mut self) -> Node {
        self.deepen();
        let node = self.command(&[]);
        self.depth -= 1;
        node.unwrap_or_else(|| Node::Simple(Simple::default()))
    }

    fn test(&mut self) -> Node {
        let mut words = Vec::new();
        while !self.at_end() {
            self.skip_newlines();
            let word = self.word(true);
            if matches!(word.as_slice(), [Part::Lit { text, quoted: false }] if text == "]]") {
                break;
            }
            if !word.is_empty() {
                words.push(word);
            }
        }
        Node::Condition {
            words,
            redirects: self.redirects(),
        }
    }

    /// `! cmd`, `time cmd`, `coproc cmd`: the command itself.
    fn prefixed(&mut self) -> Node {
        self.skip_blanks();
        while let Some(end) = self.timing_option() {
            self.i = end;
            self.skip_blanks();
        }
        self.inner_command()
    }

    /// The end of `-p` or `-v` before a blank.
    fn timing_option(&self) -> Option<usize> {
        let letters = self.rest(self.i).strip_prefix('-')?;
        let count = letters
            .bytes()
            .take_while(|b| matches!(b, b'p' | b'v'))
            .count();
        let end = self.i + 1 + count;
        (count > 0 && self.char_at(end).is_some_and(is_space)).then_some(end)
    }
}
