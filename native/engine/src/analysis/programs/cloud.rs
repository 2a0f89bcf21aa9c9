//! What cloud, cluster, backup and infrastructure command lines would destroy, as one table of word patterns.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use crate::analysis::acts_net::sent;
use crate::analysis::effects::Finding;
use crate::analysis::options::split;
use crate::analysis::patterns::{starts, stripped, Pattern};
use crate::analysis::values::{spaced, truncated, Arg};
use crate::analysis::walk::{Call, Program, Walk};

/// Pattern over the command's words in order, options included, by program. Words are joined by one blank.
#[rustfmt::skip]
const TABLE: &[(&str, &str)] = &[
    ("ansible-vault", r"^rekey\b"),
    ("borg", r"(?:^| )(?:delete|prune|compact|repo-delete|recreate)(?: |\n?$)"),
    ("bq", r"(?:^| )rm(?: |\n?$)"),
    ("cdk", r"^destroy\b"),
    ("cf", r"^(?:delete|delete-[a-z-]+|purge-[a-z-]+)\b"),
    ("consul", r"^kv delete\b|^force-leave\b"),
    ("deck", r"^(?:gateway )?(?:reset|sync)\b"), ("gitlab-runner", r"^unregister\b.*--all-runners"), ("splunk", r"^remove\b"),
    ("databricks", r"(?:^| )(?:delete|permanent-delete)(?: |\n?$)|^fs rm .*-r"),
    ("doctl", r"(?:^| )(?:delete|rm|destroy)(?: |\n?$)"),
    ("eksctl", r"(?:^| )delete(?: |\n?$)"),
    ("etcdctl", r"(?:^| )(?:del|rm|rmdir|member remove)(?: |\n?$)"),
    ("firebase", r":(?:delete|disable|remove)\b|^database:(?:remove|set)\b"),
    ("fly", r"(?:^| )(?:destroy|delete)(?: |\n?$)"),
    ("flyctl", r"(?:^| )(?:destroy|delete)(?: |\n?$)"),
    ("hcloud", r"(?:^| )delete(?: |\n?$)"),
    ("heroku", concat!(
        r"(?:^| )(?:apps:destroy|apps:delete|destroy|pg:reset|addons:destroy|container:rm",
        r"|domains:clear)(?: |\n?$)",
    )),
    ("ibmcloud", r"(?:^| )(?:[a-z-]+-(?:delete|rm)|delete|rm)(?: |\n?$)"),
    ("kafka-acls", r"--remove\b"),
    ("kafka-configs", r"--delete-config\b"),
    ("kafka-consumer-groups", r"--delete\b"),
    ("kafka-delete-records", r"--offset-json-file"),
    ("kafka-topics", r"--delete\b"),
    ("kafka-topics.sh", r"--delete\b"),
    ("linode-cli", r"(?:^| )(?:delete|[a-z]+-delete|rebuild)(?: |\n?$)"),
    ("netlify", r"^(?:sites:delete|env:unset|blobs:delete)\b"),
    ("nomad", r"^(?:job stop .*-purge|stop .*-purge|system gc|namespace delete)"),
    ("oci", r"(?:^| )(?:delete|terminate|bulk-delete)(?: |\n?$)"),
    ("rabbitmqctl", r"^(?:.* )?(?:delete_\w+|reset|force_reset|purge_queue)\b"),
    ("railway", r"^(?:[a-z]+ )?(?:down|delete)\b"),
    ("rclone", r"^(?:.* )?(?:purge|delete|deletefile|rmdirs?|sync|dedupe|cleanup)(?: |\n?$)"),
    ("restic", r"(?:^| )(?:forget|prune|key remove|unlock --remove-all)(?: |\n?$)"),
    ("s3cmd", concat!(
        r"(?:^| )(?:rb|del .*(?:-r|--recursive)|rm .*(?:-r|--recursive))(?: |\n?$)",
        r"|^--recursive (?:del|rm)",
    )),
    ("sam", r"^delete\b"),
    ("scw", r"(?:^| )(?:delete|terminate)(?: |\n?$)"),
    ("serverless", r"^remove\b"),
    ("sls", r"^remove\b"),
    ("supabase", r"^(?:db reset|projects delete|functions delete|storage rm)\b"),
    ("velero", r"(?:^| )(?:delete|uninstall)(?: |\n?$)"),
    ("vercel", r"^(?:.* )?(?:remove|rm|project rm|env rm|domains rm)(?: |\n?$)"),
    ("wrangler", r"(?:^| )(?:delete|d1 delete|kv:namespace delete|r2 bucket delete)(?: |\n?$)"),
];
/// Command lines whose words are a noun and a verb, in either order.
#[rustfmt::skip]
const NOUN_VERB: &[&str] = &[
    "algolia", "apigeecli", "auth0", "azcopy", "circleci", "confluent", "datadog-ci", "doppler", "exo", "fastly",
    "flipt", "glab", "ldcli", "mc", "nats", "neonctl", "newrelic", "ngrok", "okta", "pd", "planetscale", "pscale",
    "rabbitmqadmin", "render", "rpk", "sentry-cli", "snow", "split", "square", "stripe", "turso", "unleash",
    "upstash", "vultr-cli",
];
const VERBS: &str = concat!(
    r"^(?:.* )?(?:delete|destroy|purge|remove|rm|rb|del",
    r"|archive|kill|clear|remove-secret|DELETE|--remove|--delete-destination(?:=true)?)(?: |\n?$)",
);
static COMPILED: LazyLock<HashMap<&'static str, (OnceLock<Pattern>, &'static str)>> =
    LazyLock::new(|| {
        let verbs = NOUN_VERB.iter().map(|name| (*name, VERBS));
        let all = TABLE.iter().copied().chain(verbs);
        all.map(|(name, pattern)| (name, (OnceLock::new(), pattern)))
            .collect()
    });
static SECRETS: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^secrets\b"));
const MAX_WORDS: usize = 64;
const MAX_CHARS: usize = 4096;

/// The names of the programs and what is known of each.
pub fn programs() -> impl Iterator<Item = (&'static str, Program)> {
    COMPILED.keys().map(|name| {
        let program: Program = match *name {
            "doppler" => doppler,
            "rclone" => rclone,
            _ => cloud,
        };
        (*name, program)
    })
}

/// Whether an option makes a command line only tell what it would do.
fn is_safe(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return false;
    };
    let rest = rest.strip_suffix('\n').unwrap_or(rest);
    let value = rest
        .strip_prefix("dry-run=")
        .or_else(|| rest.strip_prefix("dryrun="));
    if let Some(value) = value {
        return !starts(value, &["none", "false"]) && !value.contains('\n');
    }
    matches!(
        rest,
        "dry-run"
            | "dryrun"
            | "help"
            | "h"
            | "what-if"
            | "whatif"
            | "noop"
            | "simulate"
            | "print-only"
            | "check"
    )
}

fn cloud(walk: &mut Walk, call: &Call) {
    if call.args.iter().any(|a| is_safe(&a.text)) {
        return;
    }
    let Some((slot, pattern)) = COMPILED.get(call.program.as_str()) else {
        return;
    };
    let first = call.args.iter().take(MAX_WORDS).map(|a| a.text.as_str());
    let words: Vec<&str> = first
        .filter(|text| !text.is_empty())
        .map(stripped)
        .collect();
    let words = words.join(" ");
    let pattern = slot.get_or_init(|| Pattern::new(pattern));
    if let Some(found) = pattern.find(truncated(&words, MAX_CHARS)) {
        walk.give(Finding::new("cloud.destroy", stripped(found), "cloud"));
    }
}

/// doppler prints a project's credentials.
fn doppler(walk: &mut Walk, call: &Call) {
    if SECRETS.is_match(&spaced(call.args.iter().take(32))) {
        walk.secrets += 1;
        walk.give(Finding::new("secret.read", call.program.as_str(), "cloud"));
    }
    cloud(walk, call);
}

/// rclone: a copy to a bucket; a secret in it is one of a secret.
fn rclone(walk: &mut Walk, call: &Call) {
    let operands = split(&call.args, "", &[], false).operands;
    let copies = |a: &Arg| matches!(a.text.as_str(), "copy" | "mv" | "move" | "sync" | "copyto");
    if let Some((target, sources)) = operands.split_last() {
        if operands.iter().any(copies) && target.text.contains("://") {
            let data: Vec<(&str, Arg)> = sources.iter().map(|a| ("", a.clone())).collect();
            sent(
                walk,
                call,
                &data,
                std::slice::from_ref(target),
                &["operands"],
            );
        }
    }
    cloud(walk, call);
}

#[cfg(test)]
mod tests {
    use super::{is_safe, Pattern, NOUN_VERB, TABLE, VERBS};

    #[test]
    fn every_pattern_compiles() {
        let patterns = TABLE.iter().map(|(_, pattern)| *pattern).chain([VERBS]);
        assert!(patterns
            .into_iter()
            .all(|pattern| Pattern::new(pattern).compiles()));
        assert!(TABLE.iter().all(|(name, _)| !NOUN_VERB.contains(name)));
    }

    #[test]
    fn a_dry_run_does_nothing_unless_it_is_none() {
        assert!(
            is_safe("--dry-run")
                && is_safe("--dry-run=client")
                && is_safe("-h")
                && is_safe("--what-if")
        );
        assert!(!is_safe("--dry-run=none") && !is_safe("--dryrun=false") && !is_safe("help"));
    }
}
