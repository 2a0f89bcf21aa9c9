//! The syntax: the part of Python's `re` that detectors are written in.

use crate::rx::sets::Set;

const MAX_DEPTH: usize = 16; // groups within groups
const ANY: &[(u32, u32)] = &[(0, 0x0010_ffff)];

/// A place between characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `^`
    Start,
    /// `\Z`
    End,
    /// `$`: the end, or before a line feed that ends the text.
    LastLine,
    /// `\b`, and `\B`
    Word {
        /// `\B`
        negative: bool,
    },
}

/// A parsed pattern.
#[derive(Clone, Debug)]
pub enum Node {
    /// One character of a set.
    One(Set),
    /// One after the other.
    Seq(Vec<Node>),
    /// The first that leads to a match.
    Choice(Vec<Node>),
    /// Again and again.
    Repeat {
        /// What.
        item: Box<Node>,
        /// At least.
        least: usize,
        /// At most; `usize::MAX` without bound.
        most: usize,
        /// As often as it can, or as seldom.
        greedy: bool,
    },
    /// A numbered group.
    Group(usize, Box<Node>),
    /// What stands before or after, without reading it.
    Look {
        /// What.
        item: Box<Node>,
        /// Before.
        behind: bool,
        /// Must not be there.
        negative: bool,
    },
    /// The text of a group again.
    Again(usize),
    /// A place.
    At(Place),
}

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Case does not matter.
    pub fold: bool,
    /// Classes and case of ASCII only.
    pub ascii: bool,
    /// A dot is any character, a line feed too.
    pub dotall: bool,
}

/// Parse a pattern; also gives the number of its groups. `None` for what is outside the syntax.
#[must_use]
pub fn parse(pattern: &str, flags: Flags) -> Option<(Node, usize)> {
    let mut parser = Parser {
        rest: pattern,
        flags,
        groups: 0,
    };
    let node = parser.choice(0)?;
    parser.rest.is_empty().then_some((node, parser.groups))
}

struct Parser<'p> {
    rest: &'p str,
    flags: Flags,
    groups: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn skip(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn choice(&mut self, depth: usize) -> Option<Node> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut items = vec![self.sequence(depth)?];
        while self.skip("|") {
            items.push(self.sequence(depth)?);
        }
        Some(if items.len() == 1 {
            items.pop()?
        } else {
            Node::Choice(items)
        })
    }

    fn sequence(&mut self, depth: usize) -> Option<Node> {
        let mut items = Vec::new();
        while !matches!(self.peek(), None | Some('|' | ')')) {
            let item = self.atom(depth)?;
            items.push(self.repeated(item)?);
        }
        Some(if items.len() == 1 {
            items.pop()?
        } else {
            Node::Seq(items)
        })
    }

    fn repeated(&mut self, item: Node) -> Option<Node> {
        let (least, most) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => return self.counted(item),
            _ => return Some(item),
        };
        self.next();
        self.finished(item, least, most)
    }

    fn counted(&mut self, item: Node) -> Option<Node> {
        let (body, rest) = self.rest.strip_prefix('{')?.split_once('}')?;
        self.rest = rest;
        let (least, most) = match body.split_once(',') {
            None => (body, body),
            Some((least, "")) => (least, "18446744073709551615"),
            Some((least, most)) => (least, most),
        };
        let least = if least.is_empty() {
            0
        } else {
            least.parse().ok()?
        };
        self.finished(item, least, most.parse().unwrap_or(usize::MAX))
    }

    fn finished(&mut self, item: Node, least: usize, most: usize) -> Option<Node> {
        if matches!(item, Node::At(_)) || most < least || self.rest.starts_with('+') {
            return None;
        }
        let greedy = !self.skip("?");
        Some(Node::Repeat {
            item: Box::new(item),
            least,
            most,
            greedy,
        })
    }

    fn atom(&mut self, depth: usize) -> Option<Node> {
        match self.next()? {
            '(' => self.group(depth),
            '[' => self.class().map(Node::One),
            '.' if self.flags.dotall => Some(Node::One(Set::of(ANY))),
            '.' => Some(Node::One(Set::of(&[(10, 10)]).complement())),
            '^' => Some(Node::At(Place::Start)),
            '$' => Some(Node::At(Place::LastLine)),
            '\\' => self.escape(),
            '*' | '+' | '?' => None,
            c => Some(Node::One(self.one(c))),
        }
    }

    fn one(&self, c: char) -> Set {
        let set = Set::of(&[(u32::from(c), u32::from(c))]);
        if self.flags.fold {
            set.folded(self.flags.ascii)
        } else {
            set
        }
    }

    fn group(&mut self, depth: usize) -> Option<Node> {
        for (sign, behind, negative) in [
            ("?=", false, false),
            ("?!", false, true),
            ("?<=", true, false),
            ("?<!", true, true),
        ] {
            if self.skip(sign) {
                let item = Box::new(self.choice(depth + 1)?);
                return self.skip(")").then_some(Node::Look {
                    item,
                    behind,
                    negative,
                });
            }
        }
        if self.skip("?:") {
            let item = self.choice(depth + 1)?;
            return self.skip(")").then_some(item);
        }
        if self.rest.starts_with('?') {
            return None;
        }
        self.groups += 1;
        let number = self.groups;
        let item = Box::new(self.choice(depth + 1)?);
        self.skip(")").then_some(Node::Group(number, item))
    }

    fn escape(&mut self) -> Option<Node> {
        let c = self.peek()?;
        let at = match c {
            'b' => Some(Place::Word { negative: false }),
            'B' => Some(Place::Word { negative: true }),
            'Z' => Some(Place::End),
            'A' => Some(Place::Start),
            _ => None,
        };
        if let Some(place) = at {
            self.next();
            return Some(Node::At(place));
        }
        if let Some(digit) = c.to_digit(10).filter(|digit| *digit > 0) {
            self.next();
            return usize::try_from(digit).ok().map(Node::Again);
        }
        let set = self.escaped()?;
        let is_class = Set::class(c, true).is_some();
        Some(Node::One(if self.flags.fold && !is_class {
            set.folded(self.flags.ascii)
        } else {
            set
        }))
    }

    /// What stands after a backslash, in a class or outside one.
    fn escaped(&mut self) -> Option<Set> {
        let c = self.next()?;
        if let Some(set) = Set::class(c, self.flags.ascii) {
            return Some(set);
        }
        let code = match c {
            'n' => 10,
            'r' => 13,
            't' => 9,
            'f' => 12,
            'v' => 11,
            'a' => 7,
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'U' => self.hex(8)?,
            c if c.is_ascii_alphanumeric() => return None,
            c => u32::from(c),
        };
        Some(Set::of(&[(code, code)]))
    }

    fn hex(&mut self, length: usize) -> Option<u32> {
        let digits = self.rest.get(..length)?;
        self.rest = self.rest.get(length..)?;
        u32::from_str_radix(digits, 16).ok()
    }

    fn class(&mut self) -> Option<Set> {
        let negated = self.skip("^");
        let mut spans = Vec::new();
        let mut first = true;
        while first || !self.skip("]") {
            first = false;
            let low = self.class_item()?;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.next();
                let high = self.class_item()?;
                spans.push((single(&low)?, single(&high)?));
            } else {
                spans.extend(low.all_spans());
            }
        }
        let set = Set::of(&spans);
        let set = if self.flags.fold {
            set.folded(self.flags.ascii)
        } else {
            set
        };
        Some(if negated { set.complement() } else { set })
    }

    fn class_item(&mut self) -> Option<Set> {
        match self.next()? {
            '\\' => self.escaped(),
            c => Some(Set::of(&[(u32::from(c), u32::from(c))])),
        }
    }
}

fn single(set: &Set) -> Option<u32> {
    match set.all_spans().as_slice() {
        [(low, high)] if low == high => Some(*low),
        _ => None,
    }
}
