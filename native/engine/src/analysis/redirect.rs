//! Redirections and process substitutions of a walk: what is read, what is written, what files will hold.

use super::findings::MAX_FILES;
use super::tree::{Redirect, Script};
use super::values::Arg;
use super::walk::Walk;

impl Walk {
    /// What a command substitution prints; what it changes stays inside.
    pub(crate) fn substitute(&mut self, script: &Script) -> Arg {
        let cwd = self.env.cwd.clone();
        let values = self.copied();
        let out = self.nested(script, None);
        self.env.cwd = cwd;
        self.env.values = values;
        out
    }

    /// A path whose content is what the inner script prints.
    pub(crate) fn process(&mut self, script: &Script, writes: bool) -> Arg {
        let unknown = Arg::unknown();
        let out = self.nested(script, writes.then_some(&unknown));
        let path = format!("/dev/fd/{}", 64 + self.files.len());
        let arg = Arg::tainted(path.as_str(), out.taint);
        if !writes && self.files.len() < MAX_FILES {
            self.files.insert(path, out);
        }
        arg
    }

    /// The standard input and the files written, after the redirections.
    pub(crate) fn redirected(
        &mut self,
        redirects: &[Redirect],
        stdin: Option<&Arg>,
    ) -> (Option<Arg>, Vec<Arg>) {
        let mut stdin = stdin.cloned();
        let mut writes = Vec::new();
        for redirect in redirects {
            let op = redirect.op;
            if op == "<<" {
                let body = redirect.body.as_ref().and_then(|body| body.get());
                stdin = Some(body.map_or_else(Arg::empty, |body| self.single(body)));
                continue;
            }
            let target = self.single(&redirect.target);
            if self.is_exhausted() {
                break;
            }
            match op {
                "<<<" => stdin = Some(target.with_text(format!("{}\n", target.text))),
                "<&" => {}
                "<" | "<>" => stdin = Some(self.input(target)),
                ">&" if is_descriptor(&target.text) => {}
                _ => {
                    self.written(&target, "redirect", matches!(op, ">>" | "&>>"));
                    if matches!(redirect.fd.as_str(), "" | "1") {
                        writes.push(target);
                    }
                }
            }
        }
        (stdin, writes)
    }

    fn input(&mut self, target: Arg) -> Arg {
        let secrets = self.secrets;
        self.read(&target, "redirect");
        if self.secrets > secrets {
            return Arg::unknown_from("secret");
        }
        let content = self.file(&target.text).cloned();
        self.input = target.text;
        content.unwrap_or_else(|| Arg::unknown_from("file"))
    }

    /// What a command prints after its output went into files.
    pub(crate) fn wrote(&mut self, writes: &[Arg], out: Arg) -> Arg {
        if writes.is_empty() {
            return out;
        }
        for target in writes {
            self.remember(target, out.clone());
        }
        Arg::empty()
    }
}

/// `2`, `2-`, `-` or nothing: another descriptor, no file.
fn is_descriptor(text: &str) -> bool {
    text.strip_suffix('-')
        .unwrap_or(text)
        .bytes()
        .all(|b| b.is_ascii_digit())
}
