//! Sets of ASCII characters that are quick to ask.

/// A set of ASCII characters, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsciiSet([u64; 2]);

impl AsciiSet {
    /// The set of some ASCII characters.
    #[must_use]
    pub const fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self([0, 0]),
            [first, rest @ ..] => Self::of(rest).with(*first),
        }
    }

    /// The set with one more ASCII character.
    #[must_use]
    pub const fn with(self, byte: u8) -> Self {
        let Self([low, high]) = self;
        let bit = 1 << (byte & 63);
        match byte {
            0..=63 => Self([low | bit, high]),
            64..=127 => Self([low, high | bit]),
            _ => self,
        }
    }

    /// Whether a byte is one of them.
    #[must_use]
    pub const fn has(self, byte: u8) -> bool {
        let Self([low, high]) = self;
        let bits = if byte < 64 { low } else { high };
        byte < 128 && bits >> (byte & 63) & 1 == 1
    }
}
