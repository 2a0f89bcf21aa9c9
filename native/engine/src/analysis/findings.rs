//! What a walk has found so far, and what a file is that it writes or reads.

use std::collections::HashSet;

use super::effects::{effect_of, Finding, Intent};
use super::paths::{is_disk, is_sink, join, place, Place};
use super::values::{has_glob, length, shown, Arg};
use super::walk::{Receiver, Walk};

const MAX_FOUND: usize = 500; // intents of one event
const MAX_TARGET: usize = 256; // characters of an intent's target
const FINDING_COST: usize = 8;
const PLACE_COST: usize = 32; // of a path that is looked at
const GLOB_COST: usize = 512; // of a glob beside that
const FEW: usize = 24; // up to here a look through the list is faster than a set

/// Files whose content is followed.
pub(crate) const MAX_FILES: usize = 500;

impl Finding {
    /// A finding about a target that lies in a scope.
    #[must_use]
    pub fn new(name: &'static str, target: impl Into<String>, scope: &'static str) -> Self {
        Self {
            name,
            target: target.into(),
            scope,
        }
    }

    /// A finding without a target.
    #[must_use]
    pub fn bare(name: &'static str) -> Self {
        Self::new(name, "", "unknown")
    }
}

/// Intents in the order they were found, each once.
#[derive(Debug, Default)]
pub(crate) struct Found {
    list: Vec<Intent>,
    seen: HashSet<Intent>,
}

impl Found {
    pub(crate) fn list(&self) -> &[Intent] {
        &self.list
    }

    pub(crate) fn into_list(self) -> Vec<Intent> {
        self.list
    }

    pub(crate) fn add(&mut self, intent: Intent) {
        let new = if self.list.len() <= FEW {
            !self.list.contains(&intent)
        } else {
            if self.seen.is_empty() {
                self.seen = self.list.iter().cloned().collect();
            }
            self.seen.insert(intent.clone())
        };
        if new {
            self.list.push(intent);
        }
    }

    /// Go back to the first `length` intents; returns those that came later.
    pub(crate) fn back_to(&mut self, length: usize) -> Vec<Intent> {
        if length >= self.list.len() {
            return Vec::new();
        }
        self.seen.clear();
        self.list.split_off(length)
    }
}

impl Walk {
    /// Report a finding as an effect of `program`.
    pub fn emit(&mut self, finding: Finding, program: &str) {
        let partial = finding.name == "exec.partial";
        if self.is_exhausted() || !(partial || self.spend(FINDING_COST)) {
            return;
        }
        if self.found.list().len() >= MAX_FOUND && !partial {
            return;
        }
        let Some((effect, reversible)) = effect_of(finding.name) else {
            return;
        };
        self.found.add(Intent {
            name: finding.name,
            effect,
            target: shown(finding.target, MAX_TARGET),
            scope: finding.scope,
            program: program.to_owned(),
            attributed_to: self.attributed_to.clone(),
            reversible,
        });
    }

    /// Report a finding of the program whose table entry runs (Python's `yield`).
    pub fn give(&mut self, finding: Finding) {
        if self.is_exhausted() {
            return;
        }
        match self.receivers.pop() {
            Some(Receiver::Emit(program)) => {
                self.emit(finding, &program);
                self.receivers.push(Receiver::Emit(program));
            }
            Some(Receiver::Collect(mut findings)) => {
                findings.push(finding);
                self.receivers.push(Receiver::Collect(findings));
            }
            None => {}
        }
    }

    /// What has been found so far, in order.
    #[must_use]
    pub fn found(&self) -> &[Intent] {
        self.found.list()
    }

    /// Where a path lies, seen from the directory of the moment.
    #[must_use]
    pub fn place(&mut self, arg: &Arg) -> Place {
        self.spend(PLACE_COST + (length(&self.env.cwd) + length(&arg.text)) / 4);
        if has_glob(&arg.text) {
            // it is held against each protected name, and a bracket is sought to the end
            let brackets = arg.text.matches('[').count();
            self.spend(GLOB_COST + (64 + brackets) * length(&arg.text) / 8);
        }
        if self.is_exhausted() {
            // nothing that is found from here on counts
            return Place {
                scope: "unknown",
                path: String::new(),
                whole: false,
                swept: false,
            };
        }
        place(arg, &self.env.cwd, &self.work)
    }

    /// What a file will hold, for a later command that runs or reads it.
    pub fn remember(&mut self, target: &Arg, content: Arg) {
        if target.known() && self.files.len() < MAX_FILES {
            self.files
                .insert(join(&self.env.cwd, &target.text), content);
        }
    }

    /// The content of a file that was written before, as far as known.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&Arg> {
        if self.files.is_empty() {
            return None;
        }
        self.files.get(&join(&self.env.cwd, path))
    }

    /// A file that is written or replaced.
    pub fn written(&mut self, target: &Arg, program: &str, append: bool) {
        let place = self.place(target);
        if target.text.is_empty() || is_sink(&place.path) {
            return;
        }
        if place.path.starts_with("/dev/tcp/") || place.path.starts_with("/dev/udp/") {
            self.emit(
                Finding::new("net.reverse_shell", place.path, "remote"),
                program,
            );
        } else if is_disk(&place.path) {
            self.emit(
                Finding::new("disk.overwrite", place.path, "device"),
                program,
            );
        } else {
            for finding in (self.tables.write)(&place, append) {
                self.emit(finding, program);
            }
            self.emit(Finding::new("fs.write", place.path, place.scope), program);
        }
    }

    /// A file whose code runs and is not known here.
    pub fn ran(&mut self, script: &Arg, program: &str) {
        let place = self.place(script);
        self.emit(
            Finding::new("exec.script", place.path, place.scope),
            program,
        );
    }

    /// A path whose name, size or other facts are told, not its content.
    pub fn listed(&mut self, target: &Arg, program: &str) {
        let place = self.place(target);
        self.emit(Finding::new("fs.list", place.path, place.scope), program);
    }

    /// A file that is read.
    pub fn read(&mut self, target: &Arg, program: &str) {
        let place = self.place(target);
        for finding in (self.tables.read)(&place) {
            self.secrets += u32::from(finding.name == "secret.read");
            self.emit(finding, program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, MAX_FOUND};
    use crate::analysis::tables::TABLES;
    use crate::analysis::values::Arg;
    use crate::analysis::walk::Walk;

    #[test]
    fn each_intent_is_kept_once_in_the_order_found_and_only_so_many() {
        let mut walk = Walk::new(&TABLES, Some("/w"), "command");
        for k in (0..MAX_FOUND + 50).chain(0..10) {
            walk.emit(Finding::new("fs.write", format!("/tmp/{k}"), "temp"), "cp");
        }
        assert_eq!(walk.found().len(), MAX_FOUND);
        assert_eq!(
            walk.found().first().map(|i| i.target.as_str()),
            Some("/tmp/0")
        );
        walk.emit(Finding::bare("exec.partial"), "sh");
        assert_eq!(walk.found().len(), MAX_FOUND + 1);
    }

    #[test]
    fn a_write_is_judged_by_where_it_goes() {
        let mut walk = Walk::new(&TABLES, Some("/w"), "command");
        for target in ["/dev/null", "", "/dev/tcp/h/1", "/dev/sda", "x"] {
            walk.written(&Arg::new(target), "tee", false);
        }
        let names: Vec<_> = walk
            .found()
            .iter()
            .map(|i| (i.name, i.target.as_str()))
            .collect();
        let expected = [
            ("net.reverse_shell", "/dev/tcp/h/1"),
            ("disk.overwrite", "/dev/sda"),
            ("fs.write", "/w/x"),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_files_content_is_found_again_from_another_directory() {
        let mut walk = Walk::new(&TABLES, Some("/w"), "command");
        walk.remember(&Arg::new("a.sh"), Arg::new("ls"));
        walk.env.cwd = "/w/sub".to_owned();
        assert_eq!(walk.file("../a.sh"), Some(&Arg::new("ls")));
        assert_eq!(walk.file("a.sh"), None);
    }
}
