//! Splitting a program's arguments into flags, option values and operands.

use super::values::{is_space, Arg};

/// A program's arguments by kind: `flags` holds "-x" and "--long" as given, `values` the last value of each option
/// that takes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    flags: Vec<String>,
    letters: String,
    values: Vec<(String, Arg)>,
    /// What is neither an option nor an option's value.
    pub operands: Vec<Arg>,
    /// The operands from here on stand behind a `--`; None where there is none.
    pub cut: Option<usize>,
}

impl Options {
    /// Whether one of `names` was given; GNU programs and git accept a long option cut short (`--forc`).
    #[must_use]
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.flag(name))
            || self.flags.iter().any(|flag| is_cut_short(flag, names))
    }

    /// Whether exactly this flag was given (Python's `name in opts.flags`).
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        let mut letters = name.chars();
        let letter = match (letters.next(), letters.next(), letters.next()) {
            (Some('-'), Some(letter), None) => self.letters.contains(letter),
            _ => false,
        };
        letter || self.flags.iter().any(|flag| flag == name)
    }

    /// The words given as flags, "-rf" and "--force", in the order they stand (their letters are not listed).
    #[must_use]
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The last value of an option (Python's `opts.values.get(name)`).
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Arg> {
        let same = |(known, _): &&(String, Arg)| known == name;
        self.values.iter().rev().find(same).map(|(_, value)| value)
    }

    /// All options with a value, in their order.
    #[must_use]
    pub fn given(&self) -> &[(String, Arg)] {
        &self.values
    }

    /// Whether one flag, letters by themselves included, passes the test.
    pub fn any_flag(&self, test: impl Fn(&str) -> bool) -> bool {
        self.flags.iter().any(|flag| test(flag))
            || self
                .letters
                .chars()
                .any(|letter| test(&format!("-{letter}")))
    }

    fn set(&mut self, name: impl Into<String>, value: Arg) {
        self.values.push((name.into(), value));
    }
}

/// Whether a long flag of five characters or more is the beginning of one of `names`.
fn is_cut_short(flag: &str, names: &[&str]) -> bool {
    flag.starts_with("--")
        && flag.chars().nth(4).is_some()
        && names.iter().any(|name| name.starts_with(flag))
}

/// Split `args`. `short` holds the letters and `long` the names ("--user") that take a value.
///
/// Options and operands mix as in GNU programs; with `leading` the first operand ends the options (as in wrappers).
#[must_use]
pub fn split(args: &[Arg], short: &str, long: &[&str], leading: bool) -> Options {
    let valued = Valued {
        short,
        long,
        attached: &[],
    };
    split_with(args, &valued, leading)
}

/// The options of a program that have a value.
#[derive(Clone, Copy, Debug)]
pub struct Valued<'a> {
    /// Letters that take a value.
    pub short: &'a str,
    /// Longer names that take a value.
    pub long: &'a [&'a str],
    /// Options whose value, if they have one, stands behind them in the same argument (`-i.bak`).
    pub attached: &'a [&'a str],
}

/// Split `args` by all kinds of options with a value.
#[must_use]
pub fn split_with(args: &[Arg], valued: &Valued<'_>, leading: bool) -> Options {
    let mut options = Options::default();
    let mut i = 0;
    while let Some(arg) = args.get(i) {
        let text = arg.text.as_str();
        i += 1;
        if text == "--" {
            options.cut = Some(options.operands.len());
            options.operands.extend(args.iter().skip(i).cloned());
            break;
        }
        if text.starts_with("--") {
            i = long_option(args, i, arg, valued.long, &mut options);
        } else if is_cluster(text) {
            i = cluster(args, i, arg, valued, &mut options);
        } else {
            options.operands.push(arg.clone());
            if leading {
                options.operands.extend(args.iter().skip(i).cloned());
                break;
            }
        }
    }
    options
}

/// Whether a text is `-` and at least one letter, the first of which is no blank.
fn is_cluster(text: &str) -> bool {
    text.strip_prefix('-')
        .and_then(|rest| rest.chars().next())
        .is_some_and(|c| !is_space(c))
}

/// `--name`, `--name=value`, `--name value`; returns the index of the next argument.
fn long_option(args: &[Arg], i: usize, arg: &Arg, long: &[&str], options: &mut Options) -> usize {
    let (name, value) = arg
        .text
        .split_once('=')
        .map_or((arg.text.as_str(), None), |(n, v)| (n, Some(v)));
    options.flags.push(name.to_owned());
    if let Some(value) = value {
        options.set(name, arg.with_text(value));
    } else if long.contains(&name) {
        if let Some(next) = args.get(i) {
            options.set(name, next.clone());
            return i + 1;
        }
    }
    i
}

/// `-abc` or `-chdir=x`; returns the index of the next argument.
fn cluster(args: &[Arg], i: usize, arg: &Arg, valued: &Valued<'_>, options: &mut Options) -> usize {
    let (name, value) = arg
        .text
        .split_once('=')
        .map_or((arg.text.as_str(), None), |(n, v)| (n, Some(v)));
    if valued.long.contains(&name) {
        options.flags.push(name.to_owned());
        if let (None, Some(next)) = (value, args.get(i)) {
            options.set(name, next.clone());
            return i + 1;
        }
        options.set(name, arg.with_text(value.unwrap_or("")));
        return i;
    }
    options.flags.push(arg.text.clone());
    let mut letters = arg.text.chars();
    letters.next();
    while let Some(letter) = letters.next() {
        options.letters.push(letter);
        let rest = letters.as_str();
        if has_letter(valued.attached, letter) {
            if !rest.is_empty() {
                options.set(format!("-{letter}"), arg.with_text(rest));
            }
            return i;
        }
        if valued.short.contains(letter) {
            if !rest.is_empty() {
                options.set(format!("-{letter}"), arg.with_text(rest));
            } else if let Some(next) = args.get(i) {
                options.set(format!("-{letter}"), next.clone());
                return i + 1;
            }
            return i;
        }
    }
    i
}

/// Whether `-x` stands among the names.
fn has_letter(names: &[&str], letter: char) -> bool {
    names.iter().any(|name| {
        name.strip_prefix('-')
            .and_then(|rest| rest.strip_prefix(letter))
            == Some("")
    })
}

#[cfg(test)]
mod tests {
    use super::{split, split_with, Options, Valued};
    use crate::analysis::values::Arg;

    fn of(text: &str, short: &str, long: &[&str], leading: bool) -> Options {
        let args: Vec<Arg> = text.split(' ').map(Arg::new).collect();
        split(&args, short, long, leading)
    }

    fn operands(options: &Options) -> Vec<&str> {
        options.operands.iter().map(|a| a.text.as_str()).collect()
    }

    #[test]
    fn options_and_operands_mix_as_in_gnu_programs() {
        let options = of("a -rf b --user=x -- -c", "", &[], false);
        assert!(options.flag("-rf") && options.flag("-r") && options.flag("-f"));
        assert_eq!(options.value("--user"), Some(&Arg::new("x")));
        assert_eq!(operands(&options), ["a", "b", "-c"]);
    }

    #[test]
    fn a_letter_with_a_value_takes_the_rest_or_the_next_argument() {
        let options = of("-xufile -u next a", "u", &[], false);
        assert_eq!(options.value("-u"), Some(&Arg::new("next")));
        assert_eq!(operands(&options), ["a"]);
        assert_eq!(of("-u", "u", &[], false).value("-u"), None);
    }

    #[test]
    fn the_first_operand_ends_the_options_of_a_wrapper() {
        let options = of("--user me cmd -x", "", &["--user"], true);
        assert_eq!(options.value("--user"), Some(&Arg::new("me")));
        assert_eq!(operands(&options), ["cmd", "-x"]);
    }

    #[test]
    fn a_long_option_may_be_cut_short_but_not_too_short() {
        assert!(of("--forc", "", &[], false).has(&["--force"]));
        assert!(of("--for", "", &[], false).has(&["--force"]));
        assert!(!of("--fo", "", &[], false).has(&["--force"]));
        assert!(!of("-", "", &[], false).has(&["-"]));
    }

    #[test]
    fn an_attached_value_stands_behind_its_letter_only() {
        let args: Vec<Arg> = ["-i.bak", "-i", "x", "--", "y"].map(Arg::new).into();
        let valued = Valued {
            short: "",
            long: &[],
            attached: &["-i"],
        };
        let options = split_with(&args, &valued, false);
        assert_eq!(options.given(), [("-i".to_owned(), Arg::new(".bak"))]);
        assert_eq!((operands(&options), options.cut), (vec!["x", "y"], Some(1)));
        assert!(options.any_flag(|flag| flag == "-i") && !options.any_flag(|flag| flag == "-b"));
    }

    #[test]
    fn a_single_dash_may_stand_before_a_long_name() {
        let options = of("-exec=1 -chdir d x", "", &["-chdir"], false);
        assert_eq!(options.value("-chdir"), Some(&Arg::new("d")));
        assert_eq!(operands(&options), ["x"]);
    }
}
