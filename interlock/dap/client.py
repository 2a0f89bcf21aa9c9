"""A client: one measurement becomes one report, sealed for both aggregators before it leaves.

    configs = fetch_config(exchange, task.config.leader_url), fetch_config(exchange, task.config.helper_url)
    report = build_report(task, vdaf, measurement, *configs, now_us=..., rng=os.urandom)
    keep report.encode() until upload(exchange, task, [report]) returns; after a crash send the same bytes again

Whether a task is safe to take part in was judged when it was read (`task.task_of`). The randomness of each report is
fresh; a report is never built twice from the same. Source: draft-ietf-ppm-dap-18, section 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.base.codec import Malformed
from interlock.base.fetch import Unreachable
from interlock.base.primitives import Rng
from interlock.dap.backend import VdafBackend
from interlock.dap.drafts import ReportError, Role
from interlock.dap.membership import ReportProof, with_proof
from interlock.dap.messages import (
    REPORT_ID_SIZE,
    HpkeConfig,
    HpkeConfigList,
    Report,
    ReportMetadata,
    UploadErrors,
    UploadRequest,
    media_type,
)
from interlock.dap.shares import seal_input_share, supported
from interlock.dap.task import Task
from interlock.dap.transport import Exchange, checked

__all__ = ["build_report", "fetch_config", "upload"]


def build_report(
    task: Task,
    vdaf: VdafBackend,
    measurement: Sequence[int],
    leader: HpkeConfig,
    helper: HpkeConfig,
    *,
    now_us: int,
    rng: Rng,
    proof: ReportProof | None = None,
    report_id: bytes = b"",
) -> Report:
    """Shard a measurement (one 0 or 1 a place of the catalog) and seal each share to its aggregator.

    `now_us` decides the batch; `proof` is what a task with the membership extension asks for, and it names the id;
    `report_id` is the id of a report that is made anew for other keys, else one is drawn.
    Raises: ValueError, for a measurement or a proof that does not fit the task; BadSignature, for a public key that
    cannot be used.
    """
    if vdaf.vdaf_config != task.config.vdaf_configuration:
        raise ValueError("the VDAF is not that of the task")
    if (proof is None) != (task.membership is None):
        raise ValueError("a proof of membership belongs to a task that asks for one")
    named = (report_id or rng(REPORT_ID_SIZE)) if proof is None else proof.report_id
    bare = ReportMetadata(named, task.time_of(now_us))
    public_share, shares = vdaf.shard(task.context, measurement, bare.report_id, rng(vdaf.rand_size))
    metadata = with_proof(task, proof, bare, public_share)
    sealed = [
        seal_input_share(task, role, config, metadata, public_share, share, rng)
        for role, config, share in zip((Role.LEADER, Role.HELPER), (leader, helper), shares, strict=True)
    ]
    return Report(metadata, public_share, *sealed)


def fetch_config(exchange: Exchange, base_url: bytes) -> HpkeConfig:
    """The key to seal to, from an aggregator's /hpke_config. Raises: Unreachable, Malformed, DapProblem."""
    url = base_url.decode("ascii").rstrip("/") + "/hpke_config"
    reply = checked(exchange("GET", url), url, media_type("hpke-config-list"))
    config = supported(HpkeConfigList.decode(reply.body))
    if config is None:
        raise Unreachable("offers no HPKE suite that is spoken here", where=url, fix="upgrade interlock")
    return config


def upload(exchange: Exchange, task: Task, reports: Sequence[Report]) -> dict[bytes, ReportError]:
    """Send reports to the leader; those not in the answer are stored there for good.

    Raises: Unreachable, to be tried again with the same bytes; DapProblem, where the leader refuses them all;
    Malformed, for an answer that is none to these reports.
    """
    url = task.leader_resource("reports")
    body = UploadRequest(tuple(reports)).encode()
    reply = checked(exchange("POST", url, media_type("upload-req"), body), url, media_type("upload-errors"))
    errors = dict(UploadErrors.decode(reply.body, task.draft).errors)
    if not errors.keys() <= {report.metadata.report_id for report in reports}:
        raise Malformed("the leader answered for reports that were not sent")
    return errors
