//! A quick hash for tables whose keys are a policy's own: nobody else can choose keys that collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

const FACTOR: u64 = 0x517c_c1b7_2722_0a95; // odd, its bits well spread (the one of rustc's tables)

/// A table from a policy's words.
pub type Table<V> = HashMap<String, V, BuildHasherDefault<Fast>>;
/// A set of a policy's words.
pub type Words = HashSet<String, BuildHasherDefault<Fast>>;

/// Multiplies and rotates, eight bytes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fast(u64);

impl Fast {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for Fast {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.add(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
