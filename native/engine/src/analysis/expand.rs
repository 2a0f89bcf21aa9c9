//! From words to arguments.

use super::tree::{Part, Word};
use super::values::Arg;
use super::walk::Walk;

impl Walk {
    /// All fields of all words, as the arguments of a command.
    pub(crate) fn words(&mut self, words: &[Word]) -> Vec<Arg> {
        words.iter().map(|word| self.single(word)).collect()
    }

    /// A word's value without splitting, as in an assignment or a redirection.
    pub(crate) fn single(&mut self, word: &Word) -> Arg {
        let mut text = String::new();
        for part in word {
            match part {
                Part::Lit { text: own, .. } => text.push_str(own),
                Part::Sub { script, .. } => text.push_str(&self.substitute(script).text),
                Part::Proc { script, writes } => text.push_str(&self.process(script, *writes).text),
                _ => text.push_str(&Arg::unknown().text),
            }
        }
        Arg::new(text)
    }
}
