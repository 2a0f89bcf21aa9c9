"""What cloud, cluster, backup and infrastructure command lines would destroy, as one table of word patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.shell_run import Call, Program, Walk

__all__ = ["CLOUD"]

_SAFE: Final = re.compile(
    r"^--?(?:dry-?run(?:=(?!none|false).*)?|dryrun|help|h|what-?if|noop|simulate|print-only|check)$"
)
_VERB: Final = r"(?:delete|destroy|terminate|purge|remove|deregister|wipe)"
# program -> (pattern over the command's words in order, options included; the intent). Words are joined by one blank.
_TABLE: Final[dict[str, str]] = {
    "ansible-vault": r"^rekey\b",
    "aws": rf"(?:^| )(?:s3 rb|s3 rm .*--recursive|s3 .*--recursive.* rm|s3 sync .*--delete)|(?:^"
    rf"| )[a-z0-9-]+ (?:{_VERB}-[a-z-]+|release-hosts|schedule-key-deletion|revoke-[a-z-]*access)(?: |$)",
    "az": rf"(?:^| ){_VERB}(?: |$)",
    "borg": r"(?:^| )(?:delete|prune|compact)(?: |$)",
    "bq": r"(?:^| )rm(?: |$)",
    "cdk": r"^destroy\b",
    "cf": r"^(?:delete|delete-[a-z-]+|purge-[a-z-]+)\b",
    "consul": r"^kv delete\b|^force-leave\b",
    "databricks": r"(?:^| )(?:delete|permanent-delete)(?: |$)|^fs rm .*-r",
    "doctl": r"(?:^| )(?:delete|rm|destroy)(?: |$)",
    "eksctl": r"(?:^| )delete(?: |$)",
    "etcdctl": r"(?:^| )(?:del|rm|rmdir|member remove)(?: |$)",
    "firebase": r":(?:delete|disable|remove)\b|^database:(?:remove|set)\b",
    "fly": r"(?:^| )(?:destroy|delete)(?: |$)",
    "flyctl": r"(?:^| )(?:destroy|delete)(?: |$)",
    "gcloud": rf"(?:^| ){_VERB}(?: |$)",
    "gsutil": r"(?:^| )(?:rb|rm .*-r|-m rm|rm -r|rsync .*-d)(?: |$)",
    "hcloud": r"(?:^| )delete(?: |$)",
    "helm": r"^(?:.* )?(?:uninstall|delete|del|un)(?: |$)",
    "heroku": r"(?:^| )(?:apps:destroy|apps:delete|destroy|pg:reset|addons:destroy|container:rm|domains:clear)(?: |$)",
    "ibmcloud": r"(?:^| )(?:[a-z-]+-(?:delete|rm)|delete|rm)(?: |$)",
    "kafka-topics": r"--delete\b",
    "kafka-topics.sh": r"--delete\b",
    "kubectl": r"(?:^| )(?:delete(?: |$)|drain .*--(?:force|delete-emptydir-data|delete-local-data)|replace .*--force)",
    "linode-cli": r"(?:^| )(?:delete|[a-z]+-delete|rebuild)(?: |$)",
    "mc": r"^(?:rb|rm .*(?:--recursive|-r\b)|mirror .*--remove)",
    "netlify": r"^(?:sites:delete|env:unset|blobs:delete)\b",
    "nomad": r"^(?:job stop .*-purge|stop .*-purge|system gc|namespace delete)",
    "oc": r"(?:^| )delete(?: |$)",
    "oci": r"(?:^| )(?:delete|terminate|bulk-delete)(?: |$)",
    "op": r"^(?:item|vault|document|group|user) delete\b",
    "pulumi": r"^(?:.* )?(?:destroy|stack rm|state delete)(?: |$)",
    "railway": r"^(?:down|delete)\b",
    "rclone": r"^(?:.* )?(?:purge|delete|deletefile|rmdirs?)(?: |$)",
    "restic": r"(?:^| )(?:forget .*(?:--prune|--unsafe-allow-remove-all)|prune|key remove)(?: |$)",
    "s3cmd": r"(?:^| )(?:rb|del .*(?:-r|--recursive)|rm .*(?:-r|--recursive))(?: |$)|^--recursive (?:del|rm)",
    "sam": r"^delete\b",
    "scw": r"(?:^| )(?:delete|terminate)(?: |$)",
    "serverless": r"^remove\b",
    "sls": r"^remove\b",
    "supabase": r"^(?:db reset|projects delete|functions delete|storage rm)\b",
    "terraform": r"(?:^| )(?:destroy(?: |$)|apply(?: .*)? -destroy|state rm(?: |$)|workspace delete"
    r"|force-unlock)|^-destroy apply",
    "terragrunt": r"(?:^| )(?:destroy|destroy-all|run-all destroy|apply .*-destroy|state rm)(?: |$)",
    "tofu": r"(?:^| )(?:destroy(?: |$)|apply(?: .*)? -destroy|state rm(?: |$)|workspace delete)",
    "vault": r"^(?:.* )?(?:kv (?:delete|destroy|metadata delete)|secrets disable|delete|auth disable"
    r"|lease revoke .*-prefix)\b",
    "velero": r"(?:^| )delete(?: |$)",
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
        r"|remove-secret)(?: |$)",
    )
)
_TABLE.update({
    "kafka-acls": r"--remove\b", "kafka-configs": r"--delete-config\b", "kafka-consumer-groups": r"--delete\b",
    "kafka-delete-records": r"--offset-json-file", "rabbitmqctl": r"^(?:.* )?(?:delete_\w+|clear_\w+|reset"
        r"|force_reset|purge_queue)\b",
})  # fmt: skip
_COMPILED: Final = {name: re.compile(pattern) for name, pattern in _TABLE.items()}
_DOCKER: Final = re.compile(
    r"^(?:volume (?:rm|remove|prune)|system prune|(?:compose |)(?:.* )?down (?:.* )?(?:-v|--volumes)"
    r"|compose rm .*-v|rm (?:.* )?(?:-v|--volumes)"
    r"|image prune (?:.* )?-a|container prune|builder prune (?:.* )?-a|swarm leave .*--force|stack rm|secret rm"
    r"|context rm)(?: |$)"
)


def _cloud(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if any(_SAFE.match(t) for t in texts):
        return
    words = " ".join(t.strip() for t in texts[:64] if t)
    m = _COMPILED[call.program].search(words[:4096])
    if m:
        yield Finding("cloud.destroy", m.group().strip(), "cloud")


def _docker(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    if "--help" in texts:
        return
    program = "compose " if call.program == "docker-compose" else ""
    opts = split(call.args, "Hfp", ("--context", "--host", "--file", "--project-name"), leading=True)
    words = program + " ".join(a.text for a in opts.operands[:32])
    if _DOCKER.match(words):
        yield Finding("container.destroy", words[:60], "device")


CLOUD: Final[dict[str, Program]] = {
    **dict.fromkeys(_TABLE, _cloud),
    "docker": _docker,
    "docker-compose": _docker,
    "nerdctl": _docker,
    "podman": _docker,
}
