"""Commands grown at random from a tree whose simple commands are known: what runs, and what is only text.

Each command that runs deletes a path `/live/N` of its own; each text that only mentions one names `/data/N`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


def single(text: str) -> str:
    """The text in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    """The text in double quotes."""
    return '"' + "".join("\\" + c if c in '"\\$`' else c for c in text) + '"'


@dataclass
class Piece:
    """A command without its here-documents, and these, which follow the line that it ends up on.

    `flat`: the newlines in it, if any, stand inside a substitution or quotes, so that it is one line for the shell.
    """

    head: str
    bodies: str = ""
    flat: bool = True

    @property
    def text(self) -> str:
        """The piece as lines of its own."""
        return self.head + "\n" + self.bodies if self.bodies else self.head


@dataclass
class Grower:
    """Grows one command; `live` and `data` are the paths that it deletes and that it only mentions."""

    rng: random.Random
    live: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return str(self.count)

    def grow(self, depth: int) -> Piece:
        """A command; `depth` bounds how far it nests."""
        if depth <= 0 or self.rng.random() < 0.15:
            return self.rng.choice((self.simple, self.simple, self.mention))()
        return self.rng.choice((self.listed, self.compound, self.substituted, self.quoted, self.fed, self.wrapped))(
            depth
        )

    # -- commands that run ------------------------------------------------------------------------------------------

    def argv(self) -> tuple[str, str]:
        """A program and its argument as they would be written plainly."""
        path = f"/live/{self.name()}"
        self.live.add(path)
        return "rm", path

    def simple(self) -> Piece:
        program, path = self.argv()
        spelled = self.rng.choice(("rm", "'rm'", '"rm"', "\\rm", "r''m", 'r"m"', "$'\\x72m'", "/bin/rm", "${X:-rm}"))
        written = self.rng.choice((path, single(path), double(path), path[:3] + "''" + path[3:], "$'" + path + "'"))
        shapes = (
            f"{spelled} {written}", f"{spelled} -f -- {written}", f"A=1 {spelled} {written}", f"{spelled}\t{written}",
            f"{spelled} {written} >/dev/null 2>&1", f"2>/dev/null {spelled} {written}", f"{{{program},{path}}}",
            f"p={written}; rm \"$p\"", f"{spelled} \\\n {written}", f"rm${{IFS}}{path}", f"! {spelled} {written}",
        )  # fmt: skip
        return Piece(self.rng.choice(shapes))

    def wrapped(self, depth: int) -> Piece:
        """A wrapper around one plain command."""
        program, path = self.argv()
        plain = f"{program} {path}"
        shapes = (
            f"sudo {plain}", f"sudo -n -u root {plain}", f"env A=1 {plain}", f"env -i {plain}", f"nohup {plain}",
            f"timeout 5 {plain}", f"timeout -k 1 5s {plain}", f"nice -n 5 {plain}", f"time {plain}", f"command {plain}",
            f"builtin command {plain}", f"exec {plain}", f"stdbuf -oL {plain}", f"setsid {plain}",
            f"xargs {plain} </dev/null",
            f"echo {path} | xargs rm", f"printf '%s\\n' {path} | xargs -I{{}} rm {{}}", f"xargs rm <<< {path}",
            f"find . -maxdepth 0 -exec {plain} \\;", f"find . -exec {plain} {{}} +", f"parallel rm ::: {path}",
            f"watch -n 1 {plain}", f"ssh host {plain}", f"docker exec c {plain}", f"kubectl exec pod -- {plain}",
            f"python3 -c 'import os; os.system(\"{plain}\")'", f"perl -e 'system(\"{plain}\")'",
            f"awk 'BEGIN {{ system(\"{plain}\") }}'", f"ruby -e '`{plain}`'", f"git -c alias.z='!{plain}' z",
            f"node -e 'require(\"child_process\").execSync(\"{plain}\")'", f"sed '1e {plain}' f",
            f"flock /tmp/l {plain}",
            f"for d in {path}; do rm $d; done", f"f{self.name()}() {{ rm \"$1\"; }}; f{self.count} {path}",
            f"set -- {path}; rm \"$1\"", f"echo {path} | while read -r l; do rm \"$l\"; done",
            f"ionice -c 3 nice {plain}",
        )  # fmt: skip
        return Piece(self.rng.choice(shapes))

    def listed(self, depth: int) -> Piece:
        left, right = self.grow(depth - 1), self.grow(depth - 1)
        if self.rng.random() < 0.2 or (left.bodies and not right.flat):
            return Piece(f"{left.text}\n{right.head}", right.bodies, flat=False)
        operator = self.rng.choice((" && ", " || ", "; ", ";", " | ", "|", " |& ", " & ", "&&"))
        return Piece(f"{left.head}{operator}{right.head}", left.bodies + right.bodies, left.flat and right.flat)

    def compound(self, depth: int) -> Piece:
        a, b = self.grow(depth - 1).text, self.grow(depth - 1).text
        name = f"g{self.name()}"
        shapes = (
            f"( {a}\n{b}\n)", f"{{ {a}\n}} && {{ {b}\n}}", f"if {a}\nthen {b}\nfi",
            f"if true; then :; else {a}\n{b}\nfi",
            f"while {a}\ndo {b}\nbreak; done", f"until {a}\ndo {b}\ndone", f"for i in 1 2; do {a}\ndone; {b}",
            f"case x in\n(y) {a}\n;;\n*|z) {b}\n;;\nesac", f"{name}() {{ {a}\n}}; {name}; {b}",
            f"function {name} {{ {a}\n}}\n{name} x\n{b}", f"{name}() ( {a}\n)\n{b}", f"! {{ {a}\n}}; {b}",
            f"for ((i=0; i<2; i++)); do {a}\ndone\n{b}", f"if [[ -f x && ! -d y ]]; then {a}\nelif {b}\nthen :; fi",
        )  # fmt: skip
        return Piece(self.rng.choice(shapes), flat=False)

    def substituted(self, depth: int) -> Piece:
        inner = self.grow(depth - 1).text
        shapes = [
            f"echo $({inner}\n)", f'echo "a $({inner}\n) b"', f"x=$({inner}\n)", f": ${{y:-$({inner}\n)}}",
            f"cat <({inner}\n)", f"[[ -n $({inner}\n) ]]", f"ls > >({inner}\n)",
            f"for i in $({inner}\n); do :; done", f"case $({inner}\n) in *) :;; esac", f"local z=\"$({inner}\n)\"",
            f"a=($({inner}\n) b)", f"cat <<E{self.name()}\n$({inner}\n)\nE{self.count}\n",
        ]  # fmt: skip
        if "case" not in inner:  # its `)` would have to be told from the one that ends the arithmetic
            shapes.append(f"echo $((1 + $({inner}\n)))")
        if not set(inner) & set("`\\"):
            shapes += [f"echo `{inner}`", f'echo "`{inner}`"']
        chosen = self.rng.choice(shapes)
        head, newline, bodies = chosen.partition("\n") if chosen.startswith("cat <<") else (chosen, "", "")
        return Piece(head, bodies) if newline else Piece(chosen)

    def quoted(self, depth: int) -> Piece:
        """A command as the text that another one runs."""
        inner = self.grow(depth - 1).text
        text = self.rng.choice((single, double))(inner)
        shapes = (
            f"sh -c {text}", f"bash -lc {text}", f"bash -ec {text} x y", f"eval {text}", f"sudo bash -c {text}",
            f"env -S 'bash -c' true; zsh -c {text}", f"trap {text} EXIT", f"su -c {text} root", f"ssh host {text}",
            f"docker exec c sh -c {text}", f"echo {text} | sh", f"bash <<< {text}", f"source <(echo {text})",
            f"watch {text}", f"timeout 9 dash -c {text}", f"C={text}; eval \"$C\"",
            f"xargs -I% sh -c {text} </dev/null",
            f"echo {text} > s.sh; bash s.sh", f"find . -exec sh -c {text} \\;", f"flock l -c {text}",
        )  # fmt: skip
        return Piece(self.rng.choice(shapes[:6] if "\\" in inner else shapes))

    def fed(self, depth: int) -> Piece:
        """A here-document that a shell reads."""
        inner, mark = self.grow(depth - 1).text, f"M{self.name()}"
        head = self.rng.choice(
            (f"bash <<'{mark}'", f"sh -s <<'{mark}'", f"cat <<'{mark}' | sh", f"ssh host bash <<'{mark}'")
        )
        return Piece(head, f"{inner}\n{mark}\n")

    # -- text -------------------------------------------------------------------------------------------------------

    def mention(self) -> Piece:
        """A command whose text only mentions one."""
        path, mark = f"/data/{self.name()}", f"D{self.name()}"
        self.data.add(path)
        text = self.rng.choice(
            (f"rm -rf {path}", f"x; rm {path}", f"$(rm {path})", f"`rm {path}`", f"sudo rm {path} &")
        )
        inert = single(text)
        heads = ("cat", "cat > notes.md", "git commit -F -", "wc -l", "tee f", "python3 -m json.tool", "psql -c x")
        shapes = (
            Piece(f"echo {inert}"), Piece(f"printf '%s' {inert}"), Piece(f"git commit -m {inert}"),
            Piece(f"grep -rn {inert} ."), Piece(f"rg {inert}"), Piece(f": {inert}"), Piece(f"x={inert}"),
            Piece(f"true {double(text)}"), Piece(f"[[ a == {inert} ]]"), Piece(f"case {inert} in b) :;; esac"),
            Piece(f"gh issue create --title t --body {inert}"), Piece(f"sed -n {single('/rm ' + path[6:] + '/p')} f"),
            Piece(f"echo {inert} > notes.md"), Piece(f"awk {single('/rm -rf/ { print }')} f"),
            Piece(f"true\n# {text}\n:", flat=False),
            Piece(f"man rm; echo {inert} | wc -c"), Piece(f"jq {single('.a')} <<< {inert}"),
            *(Piece(f"{head} <<'{mark}'", f"{text}\n{mark}\n") for head in heads),
        )  # fmt: skip
        return self.rng.choice(shapes)


def grown(seed: int, depth: int = 3) -> tuple[str, Grower]:
    """The command of a seed, and what it holds."""
    grower = Grower(random.Random(seed))
    return grower.grow(depth).text, grower
