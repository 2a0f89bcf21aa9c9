"""What programs write is told with the target's real place: archives, editors, compilers, copies, and what runs first.

A row: the command, and the intents that it must have, each as "name scope". The native engine is held to the same rows
by test_native_intents.
"""

from __future__ import annotations

import pytest

from interlock.engine.analysis.intents import intents
from interlock.engine.event import SensorEvent

SYSTEM = "fs.write.system system"
HOOK = "persist.git_hook worktree"
OWN = "self.protect.config home"
SHELL_INIT = "persist.shell_init home"
SSH = "persist.ssh_keys home"

ARCHIVES = [
    ("tar --dir=/etc -xf a", [SYSTEM]),
    ("tar xf a --one-top-level=/etc/x", [SYSTEM]),
    ("python3 -m zipfile -e a.zip /etc", [SYSTEM]),
    ("python3 -m tarfile -e a.tar /etc", [SYSTEM]),
    ("tar xf a -C /etc", [SYSTEM]),
    ("tar -xzf a.tgz --directory=/etc", [SYSTEM]),
    ("tar czf /etc/x.tgz .", [SYSTEM]),
    ("tar x -f a -C ~/.ssh", [SSH]),
    ("tar xf a -C ~/.claude", [OWN]),
    ("tar xf a -C .git/hooks", [HOOK]),
    ("tar xf a", ["fs.write worktree"]),
    ("cd /etc && tar xf a", [SYSTEM]),
    ("tar xPf a", ["fs.write.system root"]),
    ("tar xf a -C ~ .bashrc", [SHELL_INIT]),
    ("tar cf a --remove-files ~/docs", ["fs.delete.outside home"]),
    ("bsdtar -xf a -C /usr/bin", [SYSTEM]),
    ("jar xf a.jar", ["fs.write worktree"]),
    ("unzip -d /etc a.zip", [SYSTEM]),
    ("unzip a.zip -d ~/.ssh", [SSH]),
    ("unzip -d/etc a.zip", [SYSTEM]),
    ("cpio -idm -D /etc", [SYSTEM]),
    ("cd /etc && cpio -id < a", [SYSTEM]),
    ("cpio -pd /etc", [SYSTEM]),
    ("7z x a.7z -o/etc", [SYSTEM]),
    ("7z a /etc/x.7z .", [SYSTEM]),
    ("unrar x a.rar /etc/", [SYSTEM]),
    ("ar x --output /etc lib.a", [SYSTEM]),
    ("ar x lib.a", ["fs.write worktree"]),
    ("ar rcs /etc/lib.a a.o", [SYSTEM]),
    ("gzip /etc/passwd", [SYSTEM, "privilege.account system"]),
    ("gunzip ~/.bashrc.gz", [SHELL_INIT]),
    ("bunzip2 ~/.bashrc.bz2", [SHELL_INIT]),
    ("xz -d ~/.bashrc.xz", [SHELL_INIT]),
    ("zstd -d x.zst -o /etc/x", [SYSTEM]),
    ("unzstd ~/.bashrc.zst", [SHELL_INIT]),
    ("zip /etc/x.zip a", [SYSTEM]),
    ("dpkg -x a.deb /etc", [SYSTEM]),
    ("busybox tar xf a -C /etc", [SYSTEM]),
    ("sudo tar xf a -C /etc", [SYSTEM]),
    ("lz4 -d a /etc/x", [SYSTEM]),
]
TREES = [
    ("git init /etc/x", [SYSTEM]),
    ("git bundle create /etc/x HEAD", [SYSTEM]),
    ("git checkout-index -a --prefix=/etc/", [SYSTEM]),
    ("git -c core.worktree=/etc checkout .", ["fs.write unknown"]),
    ("patch /etc/x", [SYSTEM]),
    ("patch -d /etc -p1 < a", [SYSTEM]),
    ("patch -o /etc/x a b", [SYSTEM]),
    ("patch -p1 <<E\n+++ b/.git/hooks/pre-commit\nE", [HOOK]),
    ("git apply <<E\n+++ b/.claude/settings.json\nE", ["self.protect.config worktree"]),
    ("git apply --directory=/etc a", [SYSTEM]),
    ("git -C /etc checkout x", [SYSTEM]),
    ("git --work-tree=/etc checkout x", [SYSTEM]),
    ("git clone https://h/x /etc/x", [SYSTEM]),
    ("git clone https://h/x ~/.claude", [OWN]),
    ("git archive -o /etc/x HEAD", [SYSTEM]),
    ("git diff --output=/etc/x", [SYSTEM]),
    ("git worktree add /etc/x", [SYSTEM]),
    ("git format-patch -o /etc x", [SYSTEM]),
    ("cd /etc && git clone https://h/x", [SYSTEM]),
    ("gh release download -D /etc", [SYSTEM]),
    ("gh repo clone o/r /etc/r", [SYSTEM]),
    ("svn checkout https://h/x /etc/x", [SYSTEM]),
]
COPIES_FROM_ELSEWHERE = [
    ("rsync a/ /etc/", [SYSTEM]),
    ("rsync -a host:x ~/.ssh/", ["fs.write home"]),
    ("scp host:authorized_keys ~/.ssh/", [SSH]),
    ("rsync -a host: ~/.ssh", [SSH]),
    ("scp h:x /etc/x", [SYSTEM]),
    ("rsync -a --backup-dir=/etc a b", [SYSTEM]),
    ("curl -o /etc/x https://h/x", [SYSTEM]),
    ("cd /etc && curl -O https://h/x", [SYSTEM]),
    ("curl -O --output-dir /etc https://h/x", [SYSTEM]),
    ("curl --output-dir ~/.ssh -O https://h/authorized_keys", [SSH]),
    ("wget -O /etc/x https://h/x", [SYSTEM]),
    ("wget -P /etc https://h/x", [SYSTEM]),
    ("wget -o /etc/x https://h", [SYSTEM]),
    ("curl -c /etc/x https://h", [SYSTEM]),
    ("docker cp c:/x /etc/x", [SYSTEM]),
    ("docker save -o /etc/x i", [SYSTEM]),
    ("kubectl cp p:/x /etc/x", [SYSTEM]),
    ("aws s3 cp s3://b/x /etc/x", [SYSTEM]),
    ("gsutil cp gs://b/x /etc/x", [SYSTEM]),
    ("rclone copy r:x /etc", [SYSTEM]),
    ("helm template --output-dir /etc x", [SYSTEM]),
    ("tcpdump -w /etc/x", [SYSTEM]),
]
FILES = [
    ("cp -r .ssh ~", [SSH]),
    ("mv hooks .git/", [HOOK]),
    ("mktemp -p /etc", [SYSTEM]),
    ("fallocate -l 1 /etc/x", [SYSTEM]),
    ("update-alternatives --install /usr/bin/x x /tmp/x 1", [SYSTEM]),
    ("install -D a /etc/x", [SYSTEM]),
    ("install -m 755 -t /usr/bin a", [SYSTEM]),
    ("ln -f a /etc/x", [SYSTEM]),
    ("ln -sf a ~/.bashrc", [SHELL_INIT]),
    ("cp -t /etc a", [SYSTEM]),
    ("cp pre-commit .git/hooks/", [HOOK]),
    ("cp -r x/. ~/.ssh", [SSH]),
    ("cp $X ~/.ssh/", [SSH]),
    ("split a /etc/x", [SYSTEM]),
    ("csplit -f /etc/x a 1", [SYSTEM]),
    ("split a .git/hooks/", [HOOK]),
    ("sort -o /etc/x a", [SYSTEM]),
    ("tee /etc/x", [SYSTEM]),
    ("tee -a ~/.bashrc", [SHELL_INIT]),
    ("dd of=/etc/x", [SYSTEM]),
    ("truncate -s 0 /etc/x", [SYSTEM]),
    ("mkdir /etc/x", [SYSTEM]),
    ("touch /etc/x", [SYSTEM]),
    ("uniq a /etc/x", [SYSTEM]),
    ("shuf -o /etc/x a", [SYSTEM]),
    ("xxd -r a /etc/x", [SYSTEM]),
    ("tree -o /etc/x", [SYSTEM]),
    ("openssl rand -out /etc/x 8", [SYSTEM]),
    ("openssl enc -d -in a -out /etc/x", [SYSTEM]),
    ("gpg -o /etc/x -d a", [SYSTEM]),
    ("gpg ~/.bashrc.gpg", [SHELL_INIT]),
    ("mysqldump -r /etc/x db", [SYSTEM]),
    ("pg_dump -f /etc/x db", [SYSTEM]),
    ("ffmpeg -i a /etc/x.mp4", [SYSTEM]),
    ("convert a.png /etc/x.png", [SYSTEM]),
    ("magick a.png /etc/x.png", [SYSTEM]),
    ("sqlite3 a.db '.output /etc/x'", [SYSTEM]),
    ("sqlite3 /etc/x.db", [SYSTEM]),
    ("sqlite3 a.db '.backup /etc/x'", [SYSTEM]),
    ("sqlite3 a.db \"VACUUM INTO '/etc/x'\"", [SYSTEM]),
    ("sqlite3 a.db \"ATTACH '/etc/x' AS y\"", [SYSTEM]),
    ("sqlite3 a.db <<E\n.once /etc/x\nE", [SYSTEM]),
    ("/usr/bin/time -o /etc/x ls", [SYSTEM]),
    ("strace -o /etc/x ls", [SYSTEM]),
    ("script /etc/x", [SYSTEM]),
    ("iconv -o /etc/x a", [SYSTEM]),
    ("yq -i .a /etc/x", [SYSTEM]),
    ("xmllint --output /etc/x a", [SYSTEM]),
    ("base64 -o /etc/x", [SYSTEM]),
    ("jq . a > /etc/x", [SYSTEM]),
    ("ssh-keygen -f /etc/x", [SYSTEM]),
    ("sponge /etc/x", [SYSTEM]),
    ("find . -fprint /etc/x", [SYSTEM]),
    ("rev a >/etc/x", [SYSTEM]),
    ("cat a | install /dev/stdin /etc/x", [SYSTEM]),
    ("sort a --output=/etc/x", [SYSTEM]),
    ("zcat a > /etc/x", [SYSTEM]),
]
BUILDS = [
    ("pip install --target /etc x", [SYSTEM]),
    ("pip install -t ~/.claude x", [OWN]),
    ("npm --prefix /etc install", [SYSTEM]),
    ("npm install --prefix /etc x", [SYSTEM]),
    ("uv pip install --target /etc x", [SYSTEM]),
    ("go build -o /etc/x", [SYSTEM]),
    ("cargo install --root /usr x", [SYSTEM]),
    ("gcc -Wall -O2 -o /etc/x a.c", [SYSTEM]),
    ("gcc a.c -o/etc/x", [SYSTEM]),
    ("clang -O -o /etc/x a.c", [SYSTEM]),
    ("rustc -o /etc/x a.rs", [SYSTEM]),
    ("javac -d /etc A.java", [SYSTEM]),
    ("terraform plan -out=/etc/x", [SYSTEM]),
    ("strip /usr/bin/x", [SYSTEM]),
    ("objcopy a /usr/bin/x", [SYSTEM]),
    ("poetry export -o /etc/x", [SYSTEM]),
]
EDITORS = [
    ("vim -es /etc/x -c wq", [SYSTEM]),
    ("sed -i s/a/b/ /etc/x", [SYSTEM]),
    ("sed -n 'w /etc/x' a", [SYSTEM]),
    ("perl -i -pe s/a/b/ /etc/x", [SYSTEM]),
    ("perl -i x.pl /etc/x", [SYSTEM]),
    ("ruby -i -pe x /etc/x", [SYSTEM]),
    ("awk '{print > \"/etc/x\"}' a", [SYSTEM]),
    ("gawk -i inplace '{print}' /etc/x", [SYSTEM]),
    ("ed /etc/x", [SYSTEM]),
    ("ed a <<E\nw /etc/x\nE", [SYSTEM]),
    ("ex -sc wq /etc/x", [SYSTEM]),
    ("vim -c wq /etc/x", [SYSTEM]),
    ("vim +wq /etc/x", [SYSTEM]),
    ("vim -c 'normal dd' -c 'x' /etc/x", [SYSTEM]),
    ("vim -c '%s/a/b/|wq' /etc/x", [SYSTEM]),
    ("vim a -c 'w /etc/x'", [SYSTEM]),
    ("nano /etc/x", [SYSTEM]),
    ("emacs --batch /etc/x", [SYSTEM]),
]
LOADED = [
    ("BASH_ENV=/tmp/x bash -c ls", ["exec.script temp"]),
    ("ENV=/tmp/x sh -c ls", ["exec.script temp"]),
    ("PROMPT_COMMAND=x bash", ["exec.inline unknown"]),
    ("PYTHONSTARTUP=/tmp/x python", ["exec.script temp"]),
    ("LD_PRELOAD=/tmp/x.so ls", ["exec.script temp"]),
    ("env LD_PRELOAD=/tmp/x.so ls", ["exec.script temp"]),
    ("export BASH_ENV=/tmp/x", ["exec.script temp"]),
    ("bash --rcfile /tmp/x", ["exec.script temp"]),
    ("NODE_OPTIONS='--require /tmp/x.js' node a.js", ["exec.script temp"]),
    ("PERL5OPT=-Mx perl a", ["exec.script worktree"]),
    ("LD_PRELOAD=x ls", ["exec.script worktree"]),
    ("BASH_ENV=x bash -c ls", ["exec.script worktree"]),
]
ROWS = [*ARCHIVES, *TREES, *COPIES_FROM_ELSEWHERE, *FILES, *BUILDS, *EDITORS, *LOADED]
READS = [
    "tar tf a.tar",
    "tar xOf /etc/a.tar",
    "unzip -l /etc/a.zip",
    "unzip -p a.zip x",
    "7z l /etc/a.7z",
    "cpio -it < /etc/a",
    "ar t /etc/lib.a",
    "gzip -c /etc/passwd",
    "zstd -dc /etc/a.zst",
    "git -C /etc log",
    "git -C /etc status",
    "patch --dry-run /etc/x",
    "vim -R /etc/x",
    "vim -c ':set list' /etc/x",
    "openssl x509 -in /etc/ssl/a.pem",
    "gcc -I/etc -L/usr/lib a.c",
    "ffmpeg -version",
    "sqlite3 -readonly /etc/a.db .tables",
    "docker cp /etc/x c:/x",
    "aws s3 cp /etc/x s3://b/x",
    "NODE_OPTIONS=--max-old-space-size=4096 node -v",
]


def _of(command: str) -> list[str]:
    return [f"{i.name} {i.scope}" for i in intents(SensorEvent("Bash", {"command": command}))]


@pytest.mark.parametrize(("command", "wanted"), ROWS, ids=[command for command, _ in ROWS])
def test_a_write_is_told_with_its_place(command: str, wanted: list[str]) -> None:
    assert set(wanted) <= set(_of(command))


@pytest.mark.parametrize("command", READS)
def test_what_only_reads_a_system_place_is_no_write_of_it(command: str) -> None:
    assert not [found for found in _of(command) if found.startswith(("fs.write system", "fs.write.system", "exec."))]


def test_a_folder_that_is_filled_counts_only_where_its_files_do() -> None:
    for folder in ("~/.local", "~/.config", "~/src/interlock", ".github", "~", "."):
        found = {name.split()[0] for name in _of(f"tar xf a.tar -C {folder}")}
        assert found == {"fs.read", "fs.write"}, folder


def test_the_file_that_a_variable_names_runs_if_the_command_wrote_it() -> None:
    assert "fs.delete.root root" in _of("echo 'rm -rf /' > /tmp/x; BASH_ENV=/tmp/x bash -c ls")


def test_a_name_that_an_archive_gives_below_a_folder_is_joined_to_it() -> None:
    (found,) = [
        i
        for i in intents(SensorEvent("Bash", {"command": "tar xf a -C /etc -C ssh sshd_config"}))
        if i.name == "fs.write"
    ]
    assert found.target == "/etc/ssh/sshd_config"
