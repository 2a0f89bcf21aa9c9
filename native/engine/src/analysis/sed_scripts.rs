//! What a script of sed would run or write.

use std::sync::LazyLock;

use super::patterns::Pattern;
use super::values::is_space;

static COMMAND: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"(?:^|[;\n{}])[^\S\n]*(?:(?:[0-9$,~+!]|/(?:[^/\\\n]|\\.)*/)+\s*)?e\s+([^\n]+)")
});
static WRITE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?:^|[;\n{}/])[^\S\n]*[0-9$,]*w\s+(/\S+)"));
const MAX_PART: usize = 500; // characters, with those that a backslash hides counted as one

/// The commands of `e command`.
#[must_use]
pub fn commands(script: &str) -> Vec<&str> {
    COMMAND.all(script).iter().map(|m| m.text(1)).collect()
}

/// The files of `w file`.
#[must_use]
pub fn writes(script: &str) -> Vec<&str> {
    WRITE.all(script).iter().map(|m| m.text(1)).collect()
}

/// The replacements of `s/.../replacement/e`, which run.
#[must_use]
pub fn substitutions(script: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = script.char_indices().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at <= chars.len() {
        let starts = [
            (at == 0).then_some(at),
            separates(&chars, at).then_some(at + 1),
        ];
        match starts
            .into_iter()
            .flatten()
            .find_map(|start| substitution(&chars, start))
        {
            Some((from, to, end)) => {
                let offset = |k: usize| chars.get(k).map_or(script.len(), |(o, _)| *o);
                found.extend(script.get(offset(from)..offset(to)));
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

fn separates(chars: &[(usize, char)], at: usize) -> bool {
    matches!(chars.get(at), Some((_, ';' | '\n' | '{' | '}')))
}

/// Where the replacement of a substitution that runs it starts and ends, and where the substitution ends.
fn substitution(chars: &[(usize, char)], start: usize) -> Option<(usize, usize, usize)> {
    let char = |k: usize| chars.get(k).map(|(_, c)| *c);
    let mut k = start;
    while char(k).is_some_and(is_address) {
        k += 1;
    }
    let line = k == start; // without an address, a newline is a start of its own
    while char(k).is_some_and(|c| is_space(c) && !(line && c == '\n')) {
        k += 1;
    }
    if char(k) != Some('s') {
        return None;
    }
    let mark = char(k + 1).filter(|c| "/|#,:@".contains(*c))?;
    let parts = parts(chars, k + 2, mark);
    for (i, first) in parts.iter().enumerate().take(MAX_PART + 1) {
        if !first.marks {
            continue;
        }
        let after = parts.get(i + 1).and_then(|part| part.next);
        let closing = after.filter(|at| at - i - 1 <= MAX_PART);
        if let Some(part) = closing.and_then(|at| parts.get(at)) {
            return Some((first.at + 1, part.at, part.runs.unwrap_or(part.at)));
        }
    }
    None
}

/// One character of a part of a substitution, or two where the first is a backslash.
struct Part {
    at: usize,
    /// Whether it is the mark between the parts.
    marks: bool,
    /// Where flags with an `e` end that stand after it.
    runs: Option<usize>,
    /// The first part from this one on that is such a mark with flags behind it.
    next: Option<usize>,
}

fn parts(chars: &[(usize, char)], start: usize, mark: char) -> Vec<Part> {
    let mut found = Vec::new();
    let mut at = start;
    while let Some((_, c)) = chars.get(at) {
        let width = 1 + usize::from(*c == '\\');
        let last = chars.get(at + width - 1).map(|(_, c)| *c);
        if last.is_none_or(|c| c == '\n') || found.len() > 2 * MAX_PART + 2 {
            break;
        }
        let marks = *c == mark;
        let runs = if marks { flags(chars, at + 1) } else { None };
        let next = None;
        found.push(Part {
            at,
            marks,
            runs,
            next,
        });
        at += width;
    }
    let mut next = None;
    for (k, part) in found.iter_mut().enumerate().rev() {
        next = part.runs.map_or(next, |_| Some(k));
        part.next = next;
    }
    found
}

fn flags(chars: &[(usize, char)], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some((_, c)) = chars.get(at) {
        if *c == 'e' {
            return Some(at + 1);
        }
        if !matches!(c, 'g' | 'p' | 'I' | 'M' | '0'..='9') {
            return None;
        }
        at += 1;
    }
    None
}

/// A digit of an address, `$` or a comma.
fn is_address(c: char) -> bool {
    matches!(c, '0'..='9' | '$' | ',')
}

#[cfg(test)]
mod tests {
    use super::{commands, substitutions, writes};

    #[test]
    fn the_commands_files_and_replacements_of_a_script() {
        assert_eq!(commands("1e rm -rf /\n$!{ e ls"), ["rm -rf /", "ls"]);
        assert_eq!(writes("s/a/b/w /etc/x"), ["/etc/x"]);
        assert_eq!(
            substitutions("1,$ s/.*/rm -rf \\/etc/ge"),
            ["rm -rf \\/etc"]
        );
        assert_eq!(substitutions("s|a|b|;s,c,d,pe"), ["d"]);
        assert!(substitutions("s/a/b/g").is_empty());
    }

    #[test]
    fn a_mark_may_stand_in_the_second_part() {
        assert_eq!(substitutions("s/a/b/c/e"), ["b/c"]);
        assert_eq!(substitutions("s/x\\\ny/b/e"), Vec::<&str>::new());
    }
}
