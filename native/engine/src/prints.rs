//! Where one of many short texts may stand: each place of a text is asked for all of them at once, so that a text full
//! of what looks like them is read as quickly as one that holds nothing of the kind.

const TOGETHER: usize = 64; // bytes

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
    /// Every byte.
    pub const ANY: Self = Self([u64::MAX; 4]);

    /// The bytes of which something holds.
    #[must_use]
    pub fn of(is: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::default();
        (0..=255)
            .filter(|byte| is(*byte))
            .for_each(|byte| set.add(byte));
        set
    }

    /// One byte, in any case.
    #[must_use]
    pub fn letter(wanted: u8) -> Self {
        Self::of(|byte| byte.eq_ignore_ascii_case(&wanted))
    }

    /// Put one more into it.
    pub fn add(&mut self, byte: u8) {
        if let Some(bits) = self.0.get_mut(usize::from(byte >> 6)) {
            *bits |= 1 << (byte & 63);
        }
    }

    /// Both sets together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let mut both = self;
        for (bits, more) in both.0.iter_mut().zip(other.0) {
            *bits |= more;
        }
        both
    }

    /// Whether a byte is in it.
    #[must_use]
    pub fn has(self, byte: u8) -> bool {
        let bits = self.0.get(usize::from(byte >> 6)).copied().unwrap_or(0);
        bits >> (byte & 63) & 1 == 1
    }
}

/// Up to 64 kinds of three bytes that stand together, and of the byte before them.
pub struct Prints {
    /// By byte, a bit for each kind: whether it may stand before, be the first, the second, the third.
    rows: Box<[[u64; 4]; 256]>,
}

impl Default for Prints {
    fn default() -> Self {
        let rows = Box::new([[0; 4]; 256]);
        Self { rows }
    }
}

impl Prints {
    /// The texts of a kind begin so: the byte before them (0 before the text and after it), and their first three. What
    /// is added to a kind twice holds for each byte by itself.
    pub fn add(&mut self, kind: usize, print: [Bytes; 4]) {
        for (byte, row) in (0..=255).zip(self.rows.iter_mut()) {
            for (bits, set) in row.iter_mut().zip(print) {
                *bits |= u64::from(set.has(byte)) << (kind & 63);
            }
        }
    }

    /// The same for a text that may stand anywhere, in any case.
    pub fn add_word(&mut self, kind: usize, word: &[u8]) {
        let at = |place: usize| {
            word.get(place)
                .map_or(Bytes::ANY, |byte| Bytes::letter(*byte))
        };
        self.add(kind, [Bytes::ANY, at(0), at(1), at(2)]);
    }

    fn row(&self, byte: u8) -> [u64; 4] {
        self.rows
            .get(usize::from(byte))
            .copied()
            .unwrap_or_default()
    }

    /// Call `see` with each place where some of the kinds that live may stand, and which; it says which live on. What is
    /// read together is passed over where `begins` holds of nothing; it holds of each kind's first byte.
    pub fn each(
        &self,
        text: &[u8],
        live: u64,
        begins: impl Fn(u8) -> bool,
        mut see: impl FnMut(usize, u64) -> u64,
    ) {
        let (mut live, mut at) = (live, 0);
        let mut state = State::after(self, None);
        for chunk in text.chunks(TOGETHER) {
            let is_passed = !chunk.iter().fold(false, |any, byte| any | begins(*byte));
            let read = if is_passed { 2 } else { TOGETHER }; // what began before it may end in it
            for (ahead, byte) in chunk.iter().take(read).enumerate() {
                let kinds = state.read(self, *byte) & live;
                if kinds != 0 {
                    live = see(at + ahead - 2, kinds); // never of the first two
                }
            }
            if is_passed {
                state = State::after(self, chunk.last().copied());
            }
            at += chunk.len();
        }
        for at in at..at + 2 {
            let kinds = state.read(self, 0) & live;
            if kinds != 0 && at > 1 {
                live = see(at - 2, kinds);
            }
        }
    }

    /// The next place from one on where some of the kinds may stand, a bit each, and which.
    #[must_use]
    pub fn next(&self, text: &[u8], from: usize) -> Option<(usize, u64)> {
        let rest = text.get(from..)?;
        let last = from.checked_sub(1).and_then(|at| text.get(at));
        let mut state = State::after(self, last.copied());
        for (ahead, byte) in rest.iter().enumerate() {
            let kinds = state.read(self, *byte);
            if kinds != 0 {
                return Some((from + ahead - 2, kinds)); // never of the first two
            }
        }
        (rest.len()..rest.len() + 2).find_map(|ahead| {
            let kinds = state.read(self, 0);
            (kinds != 0 && ahead > 1).then(|| (from + ahead - 2, kinds))
        })
    }

    /// The same, for texts that mostly hold none: `begins` holds of the first two bytes of each kind, and of few others.
    /// What is read together is passed over where it holds of nothing.
    #[must_use]
    pub fn next_rare(
        &self,
        text: &[u8],
        from: usize,
        begins: impl Fn(u8, u8) -> bool,
    ) -> Option<(usize, u64)> {
        let mut at = from;
        while at < text.len() {
            let end = text.len().min(at + TOGETHER);
            let firsts = text.get(at..end)?;
            let pairs = || firsts.iter().zip(text.get(at + 1..).unwrap_or_default());
            let is_here = pairs().next().is_some_and(|(one, two)| begins(*one, *two));
            if is_here || pairs().fold(false, |any, (one, two)| any | begins(*one, *two)) {
                let found = self.next(text.get(..text.len().min(end + 2))?, at);
                if let Some((place, kinds)) = found.filter(|(place, _)| *place < end) {
                    return Some((place, kinds));
                }
            }
            at = end;
        }
        None
    }
}

/// Of the bytes read last the kinds that they may begin.
struct State {
    before: u64,
    first: u64,
    second: u64,
}

impl State {
    fn after(prints: &Prints, last: Option<u8>) -> Self {
        let [before, ..] = prints.row(last.unwrap_or(0));
        Self {
            before,
            first: 0,
            second: 0,
        }
    }

    /// Read a byte; the kinds that it ends.
    fn read(&mut self, prints: &Prints, byte: u8) -> u64 {
        let [before, first, second, third] = prints.row(byte);
        let found = self.second & third;
        self.second = self.first & second;
        self.first = self.before & first;
        self.before = before;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Prints};

    #[test]
    fn each_place_is_seen_of_each_kind_that_lives() {
        let mut prints = Prints::default();
        let no_word = Bytes::of(|byte| !byte.is_ascii_alphanumeric());
        let [k, e, y] = [b'k', b'e', b'y'].map(Bytes::letter);
        prints.add(0, [no_word, k, e, y]);
        prints.add_word(63, b"ey");
        let all = |text: &str, live: u64| {
            let mut found = Vec::new();
            let begins = |byte: u8| matches!(byte | 32, b'k' | b'e');
            prints.each(text.as_bytes(), live, begins, |place, kinds| {
                found.push((place, kinds));
                live
            });
            found
        };
        for far in 0..70 {
            let text = format!("{}key{}", "-".repeat(far), "-".repeat(70));
            assert_eq!(all(&text, u64::MAX), [(far, 1), (far + 1, 1 << 63)]);
        }
        let other = 1 << 63;
        let both = [(0, 1), (1, other), (4, 1), (5, other), (10, other)];
        assert_eq!(all("KEY key.keey", u64::MAX), both);
        assert_eq!(all("KEY key-xKEY", 1), [(0, 1), (4, 1)]);
        assert_eq!(all("xkey", u64::MAX), [(2, other)]);
        assert_eq!(all("ke", u64::MAX), []);
        assert_eq!(all("", u64::MAX), []);
        for (far, text) in ["KEY key.keey", "x", "xxkey"].into_iter().enumerate() {
            let text = format!("{}{text}", "-".repeat(61 + far));
            let rare = |from| {
                prints.next_rare(text.as_bytes(), from, |one, two| {
                    matches!((one | 32, two | 32), (b'k', b'e') | (b'e', b'y'))
                })
            };
            for from in 0..text.len() {
                assert_eq!(
                    rare(from),
                    prints.next(text.as_bytes(), from),
                    "{text} {from}"
                );
            }
        }
    }
}
