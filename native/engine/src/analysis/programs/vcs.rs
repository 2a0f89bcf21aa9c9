//! What git and GitHub commands would lose or push.

use std::sync::LazyLock;

use crate::analysis::effects::Finding;
use crate::analysis::options::split;
use crate::analysis::patterns::Pattern;
use crate::analysis::places::is_secret;
use crate::analysis::values::spaced;
use crate::analysis::walk::{Call, Program, Walk};

static GH: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"^(?:repo (?:delete|archive)|release delete(?:-asset)?|secret (?:delete|remove)|variable delete",
        r"|gist delete|run delete",
        r"|codespace delete|project delete|ssh-key delete|gpg-key delete|cache delete|ruleset delete|label delete",
        r"|issue delete)\b",
    ))
});
#[rustfmt::skip]
const GH_LONG: &[&str] = &[
    "--method", "--field", "--raw-field", "--header", "--repo", "--title", "--body", "--input",
];

/// The names of the programs and what is known of each.
pub const PROGRAMS: &[(&str, Program)] = &[("gh", gh), ("git", elsewhere), ("hub", elsewhere)];

/// A push to a remote that was changed by the same command line.
fn elsewhere(walk: &mut Walk, call: &Call) {
    let pushes = call.args.iter().any(|a| a.text == "push");
    if pushes
        && walk
            .found()
            .iter()
            .any(|intent| intent.name == "vcs.remote_change")
    {
        walk.give(Finding::new("vcs.push_elsewhere", "", "remote"));
    }
}

fn gh(walk: &mut Walk, call: &Call) {
    let opts = split(&call.args, "XfFHqtRbBm", GH_LONG, false);
    if opts.has(&["--help"]) {
        return;
    }
    let words = spaced(opts.operands.iter().take(2));
    let method = opts.value("-X").or_else(|| opts.value("--method"));
    let deletes = method.is_some_and(|method| method.text.to_uppercase() == "DELETE");
    if GH.is_match(&words) || (words.starts_with("api") && deletes) {
        walk.give(Finding::new("cloud.destroy", words.as_str(), "cloud"));
    }
    if words.starts_with("gist create") {
        walk.give(Finding::new("net.upload", "gist", "remote"));
        for arg in opts.operands.iter().skip(2) {
            if is_secret(&walk.place(arg).path) {
                walk.give(Finding::new(
                    "net.upload.secret",
                    arg.text.as_str(),
                    "remote",
                ));
            }
        }
    }
}
