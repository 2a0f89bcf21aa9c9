"""A hundred commands that look as if they only read, on an ordinary checkout with all programs: none is proven."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interlock.engine.analysis.harmless import prove
from interlock.engine.event import SensorEvent
from interlock.engine.harmless_files import FileResolver
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
    "sysctl net.x=1",
    "sysctl -w net.x=1",
    "dmesg -C",
    "ip link set eth0 down",
    "ip addr add 10.0.0.1/8 dev eth0",
    "ifconfig eth0 down",
    "mount a b",
    "unzip a.zip",
    "unzip -o a.zip",
    "yq -i .a=1 x.yml",
    "dpkg -i a.deb",
    "nvidia-smi -pm 1",
    "xmllint --nonet --output x a",
    "mesg y",
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
    "read PATH; ls",
    "read -a PATH; ls",
    "read -aPATH; ls",
    "unset PATH; ls",
    "alias ls=rm",
    "shopt -s expand_aliases",
    "IFS=x; cat axb",
    "COLUMNS='path[$(rm x)]'; ls",
    "LINES='a[$(rm x)]' ls",
    "COLUMNS=path ls",
    "COLUMNS=$((1)) ls",
    "for COLUMNS in 'a[$(rm x)]'; do ls; done",
    "read COLUMNS",
    "unset LINES",
    "LC_ALL=../x ls",
    "LANG=/x/y ls",
    "LC_MESSAGES=x/y ls",
    "env LC_ALL=/x sort a",
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
    "shellcheck a.sh",
    "npm ls",
    "yarn --version",
    "go version",
    "cargo --version",
    "pytest --help",
    "ip netns exec x sh",
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
    "netstat -a",
    "lsof -i",
    "gron https://x.example/a",
    "rpm -q https://x.example/a.rpm",
    "xmllint a",
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
    "echo ../*",  # the shell reads the directory, whatever echo does
    "echo /etc/*",
    "echo ~/.ssh/*",
    "echo {../*,x}",
    "echo */../../*",
    "echo $(printf %s ../?)",
    "basename /home/[a-z]*",
    "test -e ../*",
    "true $HOME/*",
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
    "env A=1",
    "env -i",
    "printenv -0",
    "cat **/a",
    "ls -LR",
    "TZ=:/etc/passwd date",
    "TERM=../x tput cols",
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
    "pushd src; cat ~1/../x",
    "x='*'; cat ${x#\\*}/etc/passwd",
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
    "cat /checkout/tree/../x",
    "cat /checkout/treetop/x",
    "nm @/etc/passwd",
    "readelf -h @/etc/passwd",
    "strings @/etc/passwd",
    "objdump -d @/etc/passwd",
    "size @/etc/passwd",
    "sysctl -n /../../etc/passwd",
    "sysctl net/../../../etc/passwd",
]
# Found by an attack on the proofs; each stands for a kind.
ONCE_PROVEN = [
    # an option that undoes another one, or means something else to another program of that name
    "bat -pp --paging=always a",
    "sed -l 'w out' p",
    "ls -T /etc",
    "ls -w /etc",
    "fmt -p /etc/passwd",
    "column -n /etc/passwd",
    "sum -s /etc/passwd",
    "find -f /etc -name x",
    "find -x /etc",
    "ptx -G a b",
    "ptx -i /etc/passwd a",
    "uuidgen -t",
    "who /var/log/wtmp",
    "compgen -f /etc/",
    "compgen -d /home/",
    "nl -b /etc/passwd",
    "strings -n ../x a",
    # a default action: with an option before it, `list` is no subcommand
    "git stash",
    "yes | git stash -p list",
    "git var -l",
    "git range-diff a..b c..d",
    "git diff ~/x a",
    "git diff ./.. a",
    "git diff src/../.. a",
    # an option's value that is an option for a program that takes no value there
    "git shortlog -n --output=x",
    "git rev-list --count --output=x HEAD",
    # with two modes, the last one counts
    "bzip2 -t -d a",
    "xz -l -d a",
    "zstd -t -d a.zst",
    "ag --after x /etc/passwd",
    # what connects, or runs other programs by the way
    "last -d",
    "lspci -q",
    "lspci -qn",
    "getent netgroup x",
    "pip list",
    "pip freeze",
    "mediainfo https://x.example/a",
    "pdfinfo https://x.example/a",
    "cloc a.tar.gz",
    "lsof -n +M",
    "xmllint --nonet --c14n a.xml",
    "mediainfo --Output=file:///etc/passwd a",
    "fd -l x",
    "hwinfo --all",
    "tput init",
    "objdump -S a.o",
    'lolcat "|id"',
    # text that becomes code, or a name, only when it runs
    'yq -n \'eval("lo" + "ad_str(\\"/etc/passwd\\")")\'',
    "jq -n '\"a\" | modulemeta'",
    "test $(cat f)",
    '[ "$(cat f)" "$(cat g)" ]',
    "test a* -eq 1",
    "printf $(cat f)",
    'printf %d "$(cat f)"',
    "printf 'x%n' PATH; ls",
    "printf -- '%n' PATH",
    "printf %d PATH=5; ls",
    "printf %d PATH++; ls",
    "[ PATH=5 -eq 5 ]; ls",
    "[ -t PATH=5 ]; ls",
    # an end that is not where it seems
    "find . -exec cat + .env \\;",
    "sed 's/[/]/g;s/w src/x/;p' a",
    # names that a search found, with more text behind or split otherwise
    "find . -maxdepth 0 -exec cat {}/../../../etc/passwd \\;",
    "find . -exec cat {}./etc/passwd \\;",
    "find . -print0 | xargs -0 -I{} cat {}/../../etc/passwd",
    "cat $(find . -maxdepth 0)/../../etc/passwd",
    "find etc | xargs -d . cat",
    "find 'x /etc' | xargs cat",
    "cat $(find 'x /etc')",
    "printf './etc/passwd\n.' | tac | xargs cat",
    "echo a | cat 5 | xargs cat",
    "echo a | sort -n 5 | xargs cat",
    "cat $(pwd)2/x",
    "pushd nowhere; cat $PWD/a",
    "find . | xargs uniq",
    "find . -exec uniq {} +",
    "uniq $(find . -name x)",
    "find . -print0 | xargs -0 xxd",
    "find src -print0 | xargs -0 awk",
    "find src -exec awk {} \\;",
    "find . -exec timeout {} rm \\;",
    "find kernel -print0 | xargs -0 sysctl",
    # globs: their count, and the directory above
    "uniq a*",
    "xxd a*",
    "grep l* README.md",
    "grep -e l* README.md",
    "timeout * ls",
    "cat .?/a",
    "cat ..*/a",
    "ls .*",
    "grep -r x .*",
    # a variable that is another one when it is used
    "false && for f in src; do ls; done; cat $f/etc/passwd",
    "x=..; true || unset x; cat src/../$x/etc/passwd",
    "read a b <<< 'x ../../etc/passwd'; cat \"$b\"",
    "x=a; for i in 1 2; do cat $x; read x < f; done",
    # what another shell reads otherwise
    "cat =ls",
    "x='a /etc/passwd'; cat $=x",
    "x='/etc/pass*'; cat $~x",
    "x=/checkout/tree; ls $x:h",
    'x=/checkout/tree; ls "$x:h"',
    "echo $HOME[PATH=1]",
    "echo $[a[$(id)]]",
    "< README.md",
    "echo *(e:id:)",
    "echo {a,b}*(e:id:)",
    "# it's\necho *(e:id:) 'x'",
    "cat <<< *(e:id:)",
    "cat x\u00a0/etc/passwd",
    "cat \u00e0/etc/passwd",
    "cat a\x1bb",
    # tests that other shells compute, or run as a command
    "[[ a > b ]]",
    "[[ -n x && rm ]]",
    "[[ -n x;reboot ]]",
    "[[ -n $x ]]",
    "[[ x == ../* ]]",
    "[[ $(rm x) ]]",
    "[[ -n $(rm x) ]]",
    "[[ -n a -o -v 'x[$(id)]' ]]",
    "(( a[$(id)] ))",
    "[[ -n $x[a=1] ]]",
    "case $(rm x) in *) ls ;; esac",
    "case a in a) rm x ;; *) ls ;; esac",
    "case $x[a=1] in a) ls ;; esac",
    "case a in $(rm x)) ls ;; esac",
    # a prompt that zsh takes for a variable
    "read -p PATH x",
    "read -p 'PATH?new' x",
    "read -p 'a[$(id)]' x",
    "read -p 'Go on? ' PATH",
    # names that begin with a dash
    "uprecords -?",
    "ls -[lR]",
    # a directory whose name goes on, or that is another one by then
    "cat $(pwd)x",
    "cat $(pwd)/../x",
    "cd src; cat $(pwd)/../../x",
    # what a program makes of any words
    "cat a | xargs rm",
    "cat a | xargs printf",
    "cat a | xargs test",
    "cat a | xargs ./echo",
    "cat a | xargs -a /etc/passwd echo",
    "cat a | xargs -I{} {} x",
    # sed: a delimiter that is more than one thing
    "sed 's;a;b;w out' a",
    "sed 's;a;b;e' a",
    "sed 's;[;];b;w out;' a",
    "sed 's;a;b;;1e id' a",
    "sed 's?a?b?w out' a",
    "sed 's~a~b~;w out' a",
    "sed 's=a=b=;=;r /etc/passwd' a",
    # awk: what stands behind a print, and what hides it
    'awk \'{ print "a;b" > "f" }\' a',
    'awk \'/"/ { print > "f" }\' a',
    "awk '{ print a / b > \"x\" / c }' a",
    'awk \'$1 > 3 { printf "x" >> "f" }\' a',
    "awk '{ print a >>= b }' a",
    'awk \'{ print "x" ||| "sh" }\' a',
    'awk \'{ print "id" | "sh" }\' a',
    "awk '{ print x |& \"sh\" }' a",
    "awk '{ \"id\" | getline x; y = x > 3 }' a",
    "awk 'function p(x) { print x > \"f\" } $1 > 3 { p(1) }' a",
    # options of the shell that change what the rest means
    "set -a; ls",
    "set -k; ls PATH=.",
    "set -o allexport",
    "set -o keyword; ls PATH=.",
    "set -o history",
    # git and ip: the same word reads, or sets
    "git symbolic-ref HEAD refs/heads/x",
    "git symbolic-ref -d HEAD",
    "git hash-object -w a",
    "git hash-object /etc/passwd",
    "git fsck --lost-found",
    "git rerere",
    "git rerere clear",
    "git fast-export --export-marks=x --all",
    "git config core.editor x",
    "ip addr flush dev eth0",
    "ip route add default via 10.0.0.1",
    "ip r t default via 10.0.0.1",
    "ip link s eth0 down",
    "ip route save",
    "ip -b commands",
    "ip netns add x",
    # what a file system may take for another name
    "cat .ENV",
    "cat .git/CONFIG",
    "cat .e\u200cnv",
]
PARTIAL = ["cat 'a", "if true; then ls", "ls )", "\x00ls"]
ALL = [*WRITES, *EXECUTES, *CONNECTS, *ELSEWHERE, *ONCE_PROVEN, *PARTIAL]


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


# -- on a real directory, whose names and settings are part of the attack ---------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name in ("src", "d1/d2", "x "):
        (tree / name).mkdir(parents=True)
    for name in ("src/a", "a", "-o", "1"):
        (tree / name).write_text("x\n")
    (tree / "d1" / "d2" / "link").symlink_to(tree / "src")
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    return tree


def _real(tree: Path, command: str, **environ: str) -> bool:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tree.parent), **environ}
    return prove(SensorEvent("Bash", {"command": command}, cwd=str(tree)), FileResolver(env)) is not None


def test_a_cd_that_may_not_have_happened_leaves_both_directories_in_question(tree: Path) -> None:
    assert _real(tree, "sort src/?")
    assert not _real(tree, "false && cd src; sort ?o")
    assert not _real(tree, "false && cd src; find . | xargs ls -d")
    (tree / "-o").unlink()
    assert _real(tree, "false && cd src; sort ?o")
    (tree / "x ").rmdir()
    assert _real(tree, "false && cd src; find . | xargs ls -d")


def test_a_cd_that_follows_links_first_is_where_they_lead(tree: Path) -> None:
    assert _real(tree, "cd -P d1/d2/link && cat a")
    assert not _real(tree, "cd -P d1/d2/link/.. && cat ../x")


def test_a_glob_stays_one_where_its_text_goes_on(tree: Path) -> None:
    (tree / "out").mkdir()
    (tree / "out" / "b").symlink_to("/etc/passwd")
    assert _real(tree, "cat src/*")
    assert _real(tree, "x=src/*; cat $x; find [s]rc -exec cat {} +")
    assert not _real(tree, "x=out/*; cat $x")
    assert not _real(tree, "echo out/* | xargs cat")
    assert not _real(tree, "cat $(echo out/*)")
    assert not _real(tree, "find [o]ut -exec cat {} +")


class _CoprocInTree(Ordinary):
    def program(self, name: str) -> str | None:
        return f"{TREE}/bin/{name}" if name in ("coproc", "select", "time") else super().program(name)


@pytest.mark.parametrize("command", ["coproc ls", "time ls", "select x in a; do ls; done"])
def test_a_word_of_some_shells_is_a_program_of_the_tree_for_others(command: str) -> None:
    event = SensorEvent("Bash", {"command": command}, cwd=TREE)
    assert prove(event, Ordinary()) is not None
    assert prove(event, _CoprocInTree()) is None


@pytest.mark.parametrize("command", ["LC_ALL=C sort a", "LANG=en_US.UTF-8 ls", "COLUMNS=80 ls", "env LC_ALL=C ls"])
def test_a_plain_value_of_a_variable_that_programs_know_is_harmless(command: str) -> None:
    assert prove(SensorEvent("Bash", {"command": command}, cwd=TREE), Ordinary()) is not None


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("@x", "nm *"),
        ("@x", "nm ?x"),
        ("@x", "nm -- [@]x"),
        ("@x", "strings -n 3 *x"),
        ("@x", "objdump -d ?x"),
        ("@x", "readelf -a ?x"),
        ("@x", "find * -print0 | xargs -0 nm"),
        ("@x", "find ?x -exec nm {} \\;"),
        ("@x", "x=*; nm $x"),
        ("@x", "cd d1; nm *; cd ..; nm *"),
        ("a|e rm", "zgrep x a*"),
        ("y=2", "sysctl y?2"),
        ("rs1", "tput rs?"),
        ("rm x|", "cat rm*"),
        ("http:/x", "file http?//x"),
    ],
)
def test_a_name_that_is_an_order_is_one_where_a_glob_gives_it(tmp_path: Path, name: str, command: str) -> None:
    tree = tmp_path / "tree"
    (tree / "d1").mkdir(parents=True)
    (tree / "a").write_text("x\n")
    assert _real(tree, "nm *; strings -n 3 a*; find * -print0 | xargs -0 nm")
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("--plugin=./x.so")
    assert not _real(tree, command)
    assert _real(tree, "nm ./a; wc -l d1/*")


def test_a_tree_whose_name_would_be_split_is_not_named(tmp_path: Path) -> None:
    tree = tmp_path / "my tree"
    tree.mkdir()
    (tree / "a").write_text("")
    assert _real(tree, "cat a")
    assert not _real(tree, "cat $PWD/a")
    assert not _real(tree, "pwd | xargs ls")


@pytest.mark.parametrize(
    "setting",
    [
        "[x] [core] fsmonitor = ./x\n",
        "[x][include]path = x\n",
        '[x] [filter "y"] clean = ./x\n',
        "[format]\n\tpretty = %G?\n[gpg]\n\tprogram = ./x\n",
        "[pretty]\n\tx = %GS\n",
        '[remote "origin"]\n\turl = https://me:secret@x.example/a\n',
    ],
)
def test_no_spelling_of_a_setting_of_git_is_overlooked(tree: Path, setting: str) -> None:
    assert _real(tree, "git log")
    with (tree / ".git" / "config").open("a") as f:
        f.write(setting)
    assert not _real(tree, "git log")


def test_a_mark_at_the_start_of_a_file_hides_no_setting(tree: Path) -> None:
    (tree.parent / ".gitconfig").write_text("\ufeff[core]fsmonitor = ./x\n")
    assert not _real(tree, "git log")


def test_git_is_not_proven_where_its_configuration_lies_elsewhere(tree: Path) -> None:
    assert _real(tree, "git log")
    (tree / ".git" / "commondir").write_text("../evil\n")
    assert not _real(tree, "git log")


def test_git_is_not_proven_where_its_repository_reaches_out_of_the_tree(tree: Path) -> None:
    assert _real(tree / "src", "ls")
    assert not _real(tree / "src", "git diff")


@pytest.mark.parametrize("name", ["SHELLOPTS", "PS4", "OPENSSL_CONF", "AWKPATH", "TEXTDOMAIN", "BASHOPTS"])
def test_no_variable_that_runs_code_in_a_shell_or_library_is_overlooked(tree: Path, name: str) -> None:
    assert not _real(tree, "ls", **{name: "x"})


@pytest.mark.parametrize(("settings", "file"), [("bat", ".config/bat/config"), ("rpm", ".rpmmacros"), ("rpm", ".popt")])
def test_a_program_that_its_own_settings_make_run_others_is_not_plain(tree: Path, settings: str, file: str) -> None:
    home = tree.parent
    assert FileResolver({"HOME": str(home)}).plain(settings, str(tree))
    assert not FileResolver({"HOME": str(home), "PAGER": "./x"}).plain(settings, str(tree))
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text("x\n")
    assert not FileResolver({"HOME": str(home)}).plain(settings, str(tree))


def test_a_helper_in_the_tree_ends_every_proof(tree: Path) -> None:
    (tree / "bin").mkdir()
    path = f"{tree / 'bin'}:/usr/bin:/bin"
    assert _real(tree, "cat a", PATH=path)
    (tree / "bin" / "gzip").write_text("#!/bin/sh\n")
    (tree / "bin" / "gzip").chmod(0o755)
    assert not _real(tree, "cat a", PATH=path)  # zcat and others are scripts that run it by its name
