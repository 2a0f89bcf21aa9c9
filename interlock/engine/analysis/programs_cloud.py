"""What cloud, cluster, backup and infrastructure command lines would destroy, as one table of word patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.acts_net import sent
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.shell_run import Call, Program, Walk

__all__ = ["CLOUD"]

_SAFE: Final = re.compile(
    r"^--?(?:dry-?run(?:=(?!none|false).*)?|dryrun|help|h|what-?if|noop|simulate|print-only|check)$"
)
# program -> (pattern over the command's words in order, options included; the intent). Words are joined by one blank.
_TABLE: Final[dict[str, str]] = {
    "ansible-vault": r"^rekey\b",
    "borg": r"(?:^| )(?:delete|prune|compact|repo-delete|recreate)(?: |$)",
    "bq": r"(?:^| )rm(?: |$)",
    "cdk": r"^destroy\b",
    "cf": r"^(?:delete|delete-[a-z-]+|purge-[a-z-]+)\b",
    "consul": r"^kv delete\b|^force-leave\b",
    "deck": r"^(?:gateway )?(?:reset|sync)\b",
    "gitlab-runner": r"^unregister\b.*--all-runners",
    "splunk": r"^remove\b",
    "databricks": r"(?:^| )(?:delete|permanent-delete)(?: |$)|^fs rm .*-r",
    "doctl": r"(?:^| )(?:delete|rm|destroy)(?: |$)",
    "eksctl": r"(?:^| )delete(?: |$)",
    "etcdctl": r"(?:^| )(?:del|rm|rmdir|member remove)(?: |$)",
    "firebase": r":(?:delete|disable|remove)\b|^database:(?:remove|set)\b",
    "fly": r"(?:^| )(?:destroy|delete)(?: |$)",
    "flyctl": r"(?:^| )(?:destroy|delete)(?: |$)",
    "hcloud": r"(?:^| )delete(?: |$)",
    "heroku": r"(?:^| )(?:apps:destroy|apps:delete|destroy|pg:reset|addons:destroy|container:rm|domains:clear)(?: |$)",
    "ibmcloud": r"(?:^| )(?:[a-z-]+-(?:delete|rm)|delete|rm)(?: |$)",
    "kafka-topics": r"--delete\b",
    "kafka-topics.sh": r"--delete\b",
    "linode-cli": r"(?:^| )(?:delete|[a-z]+-delete|rebuild)(?: |$)",
    "mc": r"^(?:rb|rm .*(?:--recursive|-r\b)|mirror .*--remove)",
    "netlify": r"^(?:sites:delete|env:unset|blobs:delete)\b",
    "nomad": r"^(?:job stop .*-purge|stop .*-purge|system gc|namespace delete)",
    "oci": r"(?:^| )(?:delete|terminate|bulk-delete)(?: |$)",
    "railway": r"^(?:[a-z]+ )?(?:down|delete)\b",
    "rclone": r"^(?:.* )?(?:purge|delete|deletefile|rmdirs?|sync|dedupe|cleanup)(?: |$)",
    "restic": r"(?:^| )(?:forget|prune|key remove|unlock --remove-all)(?: |$)",
    "s3cmd": r"(?:^| )(?:rb|del .*(?:-r|--recursive)|rm .*(?:-r|--recursive))(?: |$)|^--recursive (?:del|rm)",
    "sam": r"^delete\b",
    "scw": r"(?:^| )(?:delete|terminate)(?: |$)",
    "serverless": r"^remove\b",
    "sls": r"^remove\b",
    "supabase": r"^(?:db reset|projects delete|functions delete|storage rm)\b",
    "velero": r"(?:^| )(?:delete|uninstall)(?: |$)",
    "vercel": r"^(?:.* )?(?:remove|rm|project rm|env rm|domains rm)(?: |$)",
    "wrangler": r"(?:^| )(?:delete|d1 delete|kv:namespace delete|r2 bucket delete)(?: |$)",
}
# command lines whose words are a noun and a verb, in either order
_NOUN_VERB: Final = (
    "algolia", "apigeecli", "auth0", "azcopy", "circleci", "confluent", "datadog-ci", "doppler", "exo", "fastly",
        "flipt", "glab",
    "ldcli", "mc", "nats", "neonctl", "newrelic", "ngrok", "okta", "pd", "planetscale", "pscale", "rabbitmqadmin",
        "render", "rpk",
    "sentry-cli", "snow", "split", "square", "stripe", "turso", "unleash", "upstash", "vultr-cli",
)  # fmt: skip
_TABLE.update(
    dict.fromkeys(
        _NOUN_VERB,
        r"^(?:.* )?(?:delete|destroy|purge|remove|rm|rb|del|archive|kill|clear"
        r"|remove-secret|DELETE|--remove|--delete-destination(?:=true)?)(?: |$)",
    )
)
_TABLE.update({
    "kafka-acls": r"--remove\b", "kafka-configs": r"--delete-config\b", "kafka-consumer-groups": r"--delete\b",
    "kafka-delete-records": r"--offset-json-file", "rabbitmqctl": r"^(?:.* )?(?:delete_\w+|reset"
        r"|force_reset|purge_queue)\b",
})  # fmt: skip
_COMPILED: Final = {name: re.compile(pattern) for name, pattern in _TABLE.items()}


def _cloud(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if any(_SAFE.match(t) for t in texts):
        return
    words = " ".join(t.strip() for t in texts[:64] if t)
    m = _COMPILED[call.program].search(words[:4096])
    if m:
        yield Finding("cloud.destroy", m.group().strip(), "cloud")


_SECRETS: Final = re.compile(r"^secrets\b")


def _doppler(walk: Walk, call: Call) -> Iterator[Finding]:
    """doppler prints a project's credentials."""
    if _SECRETS.search(" ".join(a.text for a in call.args[:32])):
        walk.secrets += 1
        yield Finding("secret.read", call.program, "cloud")
    yield from _cloud(walk, call)


def _rclone(walk: Walk, call: Call) -> Iterator[Finding]:
    """rclone: a copy to a bucket; a secret in it is one of a secret."""
    operands = split(call.args).operands
    if any(a.text in ("copy", "mv", "move", "sync", "copyto") for a in operands) and "://" in operands[-1].text:
        yield from sent(walk, call, [("", a) for a in operands[:-1]], operands[-1:], ("operands",))
    yield from _cloud(walk, call)


CLOUD: Final[dict[str, Program]] = {**dict.fromkeys(_TABLE, _cloud), "doppler": _doppler, "rclone": _rclone}
