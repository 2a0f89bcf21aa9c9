"""Forms of keys and tokens that their issuers give them, by which each is known wherever it stands.

The formats are those that issuers document. Every pattern begins at a literal, and every repetition in it is bounded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMS", "Form"]


@dataclass(frozen=True, slots=True)
class Form:
    """One issuer's form: the label, literals of which one has to be there, and its pattern's source."""

    kind: str
    literals: tuple[str, ...]
    source: str

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Where each of its matches begins and ends, from left to right; no two overlap."""
        pattern, before = _compiled(self.source)
        at = past = 0
        while found := pattern.search(text, at):
            begin = found.start() - before
            if begin < past:
                at = found.start() + 1
                continue
            at = past = found.end()
            yield begin, past


# What a form begins with, as it is spelt: one of a set, or literals; or so many of a set, and then literals.
_FIRST: Final = re.compile(r"\[[^]]+\](?!\{)|(?:[\w~-]|\\\.)+(?![{?*+])")
_SET_FIRST: Final = re.compile(r"(\[[^]]+\])\{(\d+)\}(\\d)?((?:[\w~-]|\\\.)+)(?![{?*+])")


@functools.cache
def _compiled(source: str) -> tuple[re.Pattern[str], int]:
    """A form's pattern, and how many characters before a match of it the form begins.

    Compiled when a literal was found, and not when the program starts. What stands before the form is looked at once
    its first literals were found: `re` finds literals that a pattern begins with many times as quickly as it tries a
    pattern everywhere.
    """
    if many := _SET_FIRST.match(source):
        held, count, digit, literals = many.group(1, 2, 3, 4)
        before = int(count) + bool(digit)
        begun = f"{literals}(?<={held}{{{count}}}{digit or ''}{literals}){_bounded(before + _length(literals))}"
        return re.compile(f"{begun}{source[many.end() :]}{_AFTER}"), before
    ways, rest = _ways(source)
    begun = _begun(ways[0]) if len(ways) == 1 else f"(?:{'|'.join(map(_begun, ways))})"
    return re.compile(f"{begun}{rest}{_AFTER}"), 0


_AFTER: Final = "(?![A-Za-z0-9])"


def _ways(source: str) -> tuple[list[str], str]:
    """The alternatives with which a form begins, and what follows each of them."""
    if not source.startswith("(?:"):
        return [source], ""
    ways, depth, begun = [], 0, 3
    for sign in re.finditer(r"\[[^]]*\]|[()|]", source):
        depth += {"(": 1, ")": -1}.get(sign.group(), 0)
        if (sign.group() == "|" and depth == 1) or depth == 0:
            ways.append(source[begun : sign.start()])
            begun = sign.end()
        if depth == 0:
            break
    return ([source], "") if source[begun:].startswith("?") else (ways, source[begun:])


def _begun(way: str) -> str:
    """One alternative that looks back once its first piece was read."""
    first = _FIRST.match(way)
    if first is None:
        return f"{_bounded(0)}{way}"
    piece = first.group()
    return f"{piece}{_bounded(1 if piece.startswith('[') else _length(piece))}{way[first.end() :]}"


def _bounded(back: int) -> str:
    """Nothing that a key may hold stands so many characters back."""
    return f"(?<![A-Za-z0-9_].{{{back}}})"


def _length(literals: str) -> int:
    return len(literals.replace("\\", ""))


def _form(kind: str, literals: str, source: str) -> Form:
    return Form(kind, tuple(literals.split()), source)


_W = r"[\w-]"
FORMS: Final = (
    _form("AWS_KEY", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    _form("AWS_KEY", "ABSK", r"ABSK[A-Za-z0-9+/]{80,300}={0,2}"),
    _form("GITHUB_TOKEN", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _form("GITHUB_TOKEN", "github_pat_", r"github_pat_\w{36,255}"),
    _form(
        "GITLAB_TOKEN",
        "gl",
        rf"gl(?:pat|ptt|dt|rtr?|cbt|ft|ffct|imt|agent|oas|soat)-{_W}{{20,300}}(?:\.{_W}{{5,20}}){{0,3}}",
    ),
    _form("GITLAB_TOKEN", "GR1348941", rf"GR1348941{_W}{{20,50}}"),
    _form(
        "SLACK_TOKEN",
        "xox",
        r"xox[abeoprs](?:\.xox[bp])?-(?:\d{1,20}-[A-Za-z0-9-]{8,250}|\w{2,12}-\d[A-Za-z0-9-]{10,250})",
    ),
    _form("SLACK_TOKEN", "xapp-", r"xapp-\d-[A-Z0-9]{8,20}-\d{8,20}-[a-f0-9]{32,128}"),
    _form("SLACK_WEBHOOK", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{30,80}"),
    _form("STRIPE_KEY", "sk_ rk_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,250}"),
    _form("GOOGLE_KEY", "AIza", rf"AIza{_W}{{35}}"),
    _form("GOOGLE_KEY", "GOCSPX- ya29.", rf"(?:GOCSPX-{_W}{{28}}|ya29\.{_W}{{30,400}})"),
    _form("ANTHROPIC_KEY", "sk-ant-", rf"sk-ant-(?:api|admin)\d\d-{_W}{{60,200}}"),
    _form("OPENAI_KEY", "sk-", rf"sk-(?:proj|svcacct|admin|None)-{_W}{{20,300}}"),
    _form("OPENAI_KEY", "sk-", r"sk-(?=[a-zA-Z0-9]{0,47}\d)(?=[a-zA-Z0-9]{0,47}[a-zA-Z])[A-Za-z0-9]{20,64}"),
    _form("JWT", "eyJ", rf"eyJ{_W}{{10,2000}}\.eyJ{_W}{{4,4000}}(?:\.{_W}{{4,2000}})?"),
    _form("NPM_TOKEN", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _form("PYPI_TOKEN", "pypi-AgE", rf"pypi-AgE{_W}{{40,500}}"),
    _form("HUGGINGFACE_TOKEN", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z]{34}"),
    _form("SENDGRID_KEY", "SG.", rf"SG\.{_W}{{20,24}}\.{_W}{{39,50}}"),
    _form("SENDINBLUE_KEY", "xkeysib-", r"xkeysib-[a-f0-9]{64}-?[A-Za-z0-9]{0,16}"),
    _form("SHOPIFY_TOKEN", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _form("DIGITALOCEAN_TOKEN", "do", r"do[opr]_v1_[a-f0-9]{64}"),
    _form("DOPPLER_TOKEN", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,44}"),
    _form("PLANETSCALE_TOKEN", "pscale_", r"pscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}"),
    _form("POSTMAN_KEY", "PMAK-", r"PMAK-[a-f0-9]{24}-?[a-f0-9]{0,34}"),
    _form("PREFECT_KEY", "pnu_", r"pnu_[A-Za-z0-9]{36}"),
    _form("PULUMI_TOKEN", "pul-", r"pul-[a-f0-9]{40}"),
    _form("LINEAR_KEY", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    _form("NOTION_TOKEN", "ntn_", r"ntn_\d{11}[A-Za-z0-9]{35}"),
    _form("NEW_RELIC_KEY", "NRAK- NRJS- NRII-", rf"(?:NRAK-[A-Za-z0-9]{{27}}|NRJS-[a-f0-9]{{19}}|NRII-{_W}{{32}})"),
    _form("GRAFANA_TOKEN", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,3})"),
    _form("VAULT_TOKEN", "hvs. hvb.", rf"hv[sb]\.{_W}{{80,300}}"),
    _form("ARTIFACTORY_KEY", "AKCp cmVmd", r"(?:AKCp[A-Za-z0-9]{50,80}|cmVmd[A-Za-z0-9]{50,70})"),
    _form("SHIPPO_TOKEN", "shippo_", r"shippo_(?:live|test)_[a-fA-F0-9]{40}"),
    _form("SENTRY_TOKEN", "sntry", r"sntry(?:u_[a-f0-9]{64}|s_eyJ[A-Za-z0-9+/]{20,400}={0,2}(?:_[A-Za-z0-9+/]{43})?)"),
    _form("SETTLEMINT_TOKEN", "sm_", r"sm_(?:aat|pat|sat)_(?=[a-z0-9]{0,15}\d)[A-Za-z0-9]{10,20}"),
    _form("SOURCEGRAPH_TOKEN", "sgp_", r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}"),
    _form("SQUARE_TOKEN", "sq0", r"sq0(?:atp|csp)-[^\s\"',]{22,60}"),
    _form("SQUARE_TOKEN", "EAAA", rf"EAAA{_W}{{22,64}}"),
    _form("FACEBOOK_TOKEN", "EAA", r"EAA[MC][A-Za-z0-9]{100,400}"),
    _form("TYPEFORM_TOKEN", "tfp_", r"tfp_[\w.=-]{40,70}"),
    _form("ALIBABA_KEY", "LTAI", r"LTAI[A-Za-z0-9]{17,24}"),
    _form("ATLASSIAN_TOKEN", "ATATT3", r"ATATT3[\w=-]{180,250}"),
    _form("TERRAFORM_TOKEN", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}"),
    _form("AGE_KEY", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _form("DATABRICKS_TOKEN", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?"),
    _form("FLY_TOKEN", "fo1_ fm1 fm2_", r"(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,400}={0,3})"),
    _form("TELEGRAM_TOKEN", ":A", rf"\d{{8,12}}:A{_W}{{33,35}}"),
    _form("DISCORD_TOKEN", ".", rf"[MNO]{_W}{{23,25}}\.{_W}{{6}}\.{_W}{{27,38}}"),
    _form("TWILIO_KEY", "SK AC", r"(?:SK|AC)[a-f0-9]{32}"),
    _form("MAILCHIMP_KEY", "-us", r"[a-f0-9]{32}-us\d{1,2}"),
    _form("MAILGUN_KEY", "key-", r"(?:pub)?key-[a-f0-9]{32}"),
    _form("ONEPASSWORD_TOKEN", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/]{200,1000}={0,3}"),
    _form("ONEPASSWORD_KEY", "A3-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    _form("CLOJARS_TOKEN", "CLOJARS_", r"CLOJARS_[a-z0-9]{60}"),
    _form("OPENSHIFT_TOKEN", "sha256~", rf"sha256~{_W}{{43}}"),
    _form("YANDEX_KEY", "AQVN", rf"AQVN{_W}{{35,38}}"),
    _form("SCALINGO_TOKEN", "tk-us-", rf"tk-us-{_W}{{48}}"),
    _form("EASYPOST_KEY", "EZ", r"EZ[AT]K[A-Za-z0-9]{54}"),
    _form("DUFFEL_TOKEN", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    _form("DYNATRACE_TOKEN", "dt0c01.", r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    _form("FLUTTERWAVE_KEY", "FLW", r"FLW(?:SECK|PUBK)_TEST-?[a-hA-H0-9]{12,32}(?:-X)?"),
    _form("FRAMEIO_TOKEN", "fio-u-", r"fio-u-[\w=-]{64}"),
    _form("INFRACOST_TOKEN", "ico-", r"ico-[A-Za-z0-9]{32}"),
    _form("HARNESS_KEY", "pat. sat.", rf"[ps]at\.{_W}{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}}"),
    _form("INTRA42_SECRET", "s-s4t2", r"s-s4t2(?:ud|af)-[a-f0-9]{64}"),
    _form("OCTOPUS_KEY", "API-", r"API-(?=[A-Z0-9]{0,25}[G-Z])[A-Z0-9]{26}"),
    _form("ADOBE_SECRET", "p8e-", r"p8e-[a-z0-9]{32}"),
    _form("AZURE_SECRET", "Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    _form("READ_ME_KEY", "rdme_", r"rdme_[a-z0-9]{70}"),
    _form("RUBYGEMS_KEY", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _form("PERPLEXITY_KEY", "pplx-", r"pplx-[A-Za-z0-9]{48}"),
    _form("GROQ_KEY", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    _form("HEROKU_KEY", "HRKU-", rf"HRKU-{_W}{{36,64}}"),
)
