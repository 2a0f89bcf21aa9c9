"""A hundred commands that look as if they only read, on an ordinary checkout with all programs: none is proven."""

from __future__ import annotations

import pytest

from interlock.engine.analysis.harmless import prove
from interlock.engine.event import SensorEvent
from tests.unit.harmless_tree import TREE, Ordinary

WRITES = [
    "sort -o README.md README.md",
    "sort --output=x a",
    "sort -uo x a",
    "uniq a b",
    "xxd a b",
    "xxd -r a",
    "tree -o x",
    "date -s 2020-01-01",
    "date 01010000",
    "find . -fprint x",
    "find . -fls x",
    "find . -delete",
    "find . -name '*' -exec rm {} +",
    "find . -ok rm {} \\;",
    "sed -i s/a/b/ x",
    "sed -n 'w out' a",
    "sed 's/a/b/w out' a",
    "sed -n '/x/w out' a",
    "awk '{ print > \"out\" }' a",
    "awk -i inplace '{ print }' a",
    "git diff --output=x",
    "git log --output x",
    "git branch new",
    "git stash",
    "git tag v1",
    "git config --get --unset core.x",
    "git remote add x y",
    "git reflog expire --all",
    "ls > out",
    "ls >> out",
    "ls &> out",
    "ls >| out",
    "ls 2> err",
    "cat <> file",
    "echo hi > /dev/sda",
    "cat a | tee b",
    "printf -v PATH x",
    "hostname evil",
    "file -C -m magic",
    "shuf -o x a",
    "iconv -o x a",
    "jq . a > b",
]
EXECUTES = [
    "find . -exec sh -c 'id' \\;",
    "find . -execdir cat {} \\;",
    "find . | xargs sh",
    "xargs -0 sh -c id",
    "sed '1e id' a",
    "sed 's/x/id/e' a",
    "sed -f script a",
    "awk 'BEGIN { system(\"id\") }'",
    "awk '{ print | \"sh\" }' a",
    "awk '{ \"id\" | getline x }' a",
    "awk '@load \"filefuncs\"; { }' a",
    'awk \'BEGIN { f = "system"; @f("id") }\'',
    "awk -f prog.awk a",
    "sort --compress-program=./x a",
    "rg --pre ./x pattern",
    "rg --hostname-bin ./x pattern",
    "git -c core.fsmonitor=./x status",
    "git -c core.pager=./x log",
    "git -c diff.external=./x diff",
    "git --exec-path=. status",
    "git -C ../other status",
    "git --git-dir=evil status",
    "git diff --ext-diff",
    "git log --textconv",
    "git grep -O./x pattern",
    "git log --show-signature",
    "git log --format=%G?",
    "git for-each-ref --format='%(signature)'",
    "git help status",
    "git x",
    "GIT_EXTERNAL_DIFF=./x git diff",
    "PATH=.:$PATH ls",
    "export PATH=.; ls",
    "LD_PRELOAD=./x.so ls",
    "env LD_PRELOAD=./x.so ls",
    "env PATH=. ls",
    "env -S 'rm x'",
    "PAGER=./x git log",
    "BASH_ENV=./x ls",
    "path=(.); ls",
    "IFS=x; cat axb",
    "./ls",
    "bin/cat a",
    "/tmp/ls",
    "$SHELL -c ls",
    "ls() { rm x; }; ls",
    "alias ls=rm; ls x",
    "eval ls",
    "bash -c ls",
    "source a",
    ". ./a",
    "time sh a",
    "nohup ls",
    "sudo ls",
    "command sh",
    "less a",
    "man ls",
    "echo ${x@P}",
    "echo $((a[$(id)]))",
    "x='a[$(rm y)]'; echo $((x))",
    "[[ a -eq 'x[$(id)]' ]]",
    "[ -v 'x[$(id)]' ]",
    "ls *(e:'id':)",
    "echo ${(e)x}",
    "compgen -C id",
    "ls $(rm x)",
    "echo `touch x`",
    "cat <(rm x)",
    "ls & rm x",
    "fd -x rm",
    "xargs -I{} {} x",
]
CONNECTS = [
    "curl -I https://x.example",
    "cat < /dev/tcp/x.example/80",
    "hostname -f",
    "who --lookup",
    "git fetch",
    "git ls-remote",
    "git remote show origin",
    "ssh host ls",
    "nc -z host 80",
    "tldr ls",
    "docker ps",
    "kubectl get pods",
    "awk 'BEGIN { \"/inet/tcp/0/x/80\" |& getline }'",
]
ELSEWHERE = [
    "cat /etc/passwd",
    "cat ~/.ssh/id_rsa",
    "cat ../other/a",
    "cat .env",
    "cat src/../.env",
    "head -c 10 credentials.json",
    "grep -r x ..",
    "grep -f ~/.netrc a",
    "grep --file=/etc/shadow a",
    "find / -name x",
    "find -L . /etc -name x",
    "ls ~",
    "cat < /etc/passwd",
    "cat $HOME/a",
    "cat $1",
    'cat "$FILE"',
    "echo $AWS_SECRET_ACCESS_KEY",
    "printenv AWS_SECRET_ACCESS_KEY",
    "env",
    "ps auxe",
    "cat $(which ls)",
    "cat $(readlink a)",
    "cat $(cat list)",
    "cat list | xargs -0 cat",
    "printf '/etc/passwd' | xargs -0 cat",
    "printf 'x\\0/etc/passwd' | xargs -0 cat",
    "echo '\\057etc/passwd' | xargs cat",
    "find . -maxdepth 0 -printf '/etc/passwd' | xargs -0 cat",
    "find . -maxdepth 0 -exec echo /etc/passwd \\; | xargs cat",
    "echo abc/etc/passwd | tail -c 12 | xargs cat",
    "find . | sed 's,^.,/etc,' | xargs cat",
    "false && x=a/b; cat $x/../../etc/passwd",
    "x=a | cat; cat $x/../../etc/passwd",
    "false && cd src; cat ../a",
    "cd src; cat ../../a",
    "cd -; cat a",
    "cd nowhere || cat ../a",
    "for f in *; do cat $f; done",
    "for f in a b c d e f g h i j; do cat $f/../..; done",
    "if test -f a; then x=a/b; fi; cat $x/../../etc/passwd",
    "du --files0-from=/etc/passwd",
    "wc --files0-from=list",
    "md5sum -c list",
    "diff -X ~/.netrc a b",
    "jq --rawfile x /etc/passwd . a",
    "jq -n env",
    "jq -n '$ENV.TOKEN'",
    "jq -L /etc . a",
    "awk 'BEGIN { ARGV[1] = \"/etc/passwd\"; ARGC = 2 } { print }'",
    "awk '{ print ENVIRON[\"TOKEN\"] }' a",
    "git diff --no-index /etc/passwd a",
    "git diff /etc/passwd a",
    "git show HEAD:.env",
    "git config --list",
    "git blame --contents /etc/passwd a",
    "sed 'r /etc/passwd' a",
    "sed -n 'R /etc/passwd' a",
    "cat *.e?v ../x",
    "cat {a,/etc/passwd}",
    "date -f /etc/passwd",
    "file -f /etc/passwd",
    "sort --files0-from=/etc/passwd",
    "cat\t/etc/passwd",
    "cat $'/etc/passwd'",
    "cat //etc/passwd",
    "cat /work/tree/../x",
    "cat /work/treetop/x",
]
PARTIAL = ["cat 'a", "if true; then ls", "ls )", "\x00ls"]
ALL = [*WRITES, *EXECUTES, *CONNECTS, *ELSEWHERE, *PARTIAL]


class _WithSecrets(Ordinary):
    """The checkout's own secrets are there."""

    def clean(self, path: str) -> bool:
        return path != TREE


def test_there_are_a_hundred_and_more() -> None:
    assert len(set(ALL)) >= 100


@pytest.mark.parametrize("command", ALL)
def test_none_is_proven(command: str) -> None:
    assert prove(SensorEvent("Bash", {"command": command}, cwd=TREE), Ordinary()) is None


@pytest.mark.parametrize(
    "command", ["grep -r TOKEN .", "rg TOKEN", "git diff", "git grep TOKEN", "git log -p", "diff -r . ."]
)
def test_nothing_that_would_read_a_secret_on_its_way_is_proven(command: str) -> None:
    assert prove(SensorEvent("Bash", {"command": command}, cwd=TREE), Ordinary()) is not None
    assert prove(SensorEvent("Bash", {"command": command}, cwd=TREE), _WithSecrets()) is None


@pytest.mark.parametrize("prefix", ["ls && ", "ls; ", "ls || ", "{ ls; }; ", "echo $(ls) ; "])
@pytest.mark.parametrize("command", ["rm x", "cat /etc/passwd", "ls > x", "git push", "sh a"])
def test_one_bad_segment_is_enough(prefix: str, command: str) -> None:
    assert prove(SensorEvent("Bash", {"command": prefix + command}, cwd=TREE), Ordinary()) is None
