"""Programs that only the proof knows: what they read is proven, no way in which they write, run or lead out is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import interlock.engine.analysis.readers as readers
from interlock.engine.analysis.grammar_files import grammar_of
from interlock.engine.analysis.harmless import prove
from interlock.engine.analysis.readers import only_prints, reader_names, reader_of
from interlock.engine.analysis.values import UNKNOWN, Arg
from interlock.engine.event import SensorEvent
from tests.unit.harmless_tree import TREE, Ordinary

DOCUMENT: Mapping[str, Any] = json.loads(Path(readers.__file__).with_suffix(".json").read_bytes())


def _proven(command: str) -> bool:
    return prove(SensorEvent("Bash", {"command": command}, cwd=TREE), Ordinary()) is not None


@pytest.mark.parametrize("name", sorted(reader_names()))
def test_each_program_compiles_and_has_one_proof(name: str) -> None:
    reader = reader_of(name)
    assert reader is not None
    assert reader.level.harmless is not None
    known = grammar_of(name)
    assert known is None or known.level.harmless is None


def test_a_program_that_does_all_that_it_can_do_has_a_level_and_no_option_beside() -> None:
    for options, names in DOCUMENT["prints"].items():
        assert names == sorted(set(names)), options
        assert all(option[0] == "-" for option in options.split("|"))


def test_an_option_that_only_prints_stands_alone_and_is_known() -> None:
    assert only_prints("dot", [Arg("-V")])
    assert not only_prints("dot", [Arg("-V"), Arg("a")])
    assert not only_prints("dot", [Arg("-O")])
    assert not only_prints("dot", [Arg("-" + UNKNOWN)])
    assert not only_prints("dot", [Arg("-V", glob=True)])
    assert not only_prints("unheardof", [Arg("--version")])


HARMLESS = [
    "gc -n a.gv b.gv",
    "pdftotext -layout a.pdf -",
    "pdfimages -list a.pdf",
    "openssl x509 -in a.crt -noout -text",
    "openssl dgst -sha256 a",
    "cat a | openssl md5",
    "find . -name '*.png' -exec pngcheck {} +",
    "find . -name '*.txt' -print0 | xargs -0 isutf8",
    "zdiff a.gz b.gz",
    "iw dev wlan0 link; iwlist wlan0 rate; ethtool -i eth0; bridge vlan show",
    "apt list --installed | head; pacman -Qi bash",
    "bind -p; complete -p; trap; set -o; fc -l -20",
    "ugrep -n TODO",
    "xml ed --help",
    "dot -V",
    "tar tzvf a.tar.gz; tar -tf a.tar | head; gunzip -c a.tgz | tar -tvf -",
    "taskset -p 1; chrt -m; chrt -p 1",
    "cp --help; gcc --version; pg_dump -V",
    "echo a | boxes -d shell | ts -i",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_a_program_that_only_reads_its_tree_is_proven(command: str) -> None:
    assert _proven(command)


WRITES = [
    "acyclic -o x a.gv",
    "ccomps -o x a.gv",
    "gvgen -o x -c 3",
    "qrencode -o x text",
    "qrencode --output=x text",
    "pdftotext a.pdf",
    "pdftotext a.pdf b.txt",
    "pdfimages a.pdf out",
    "pdfimages -list a.pdf out",
    "pdfdetach -saveall a.pdf",
    "pdfgrep --cache x a.pdf",
    "dos2unix a",
    "dos2unix -i a -n a b",
    "metaflac --remove-all a.flac",
    "metaflac --export-tags-to=x a.flac",
    "exiv2 rm a.jpg",
    "exiv2 -M 'set Exif.Photo.UserComment x' a.jpg",
    "exif --remove a.jpg",
    "exif -e a.jpg",
    "id3v2 -D a.mp3",
    "id3v2 -l -D a.mp3",
    "mid3v2 -l -D a.mp3",
    "attr -s name -V value a",
    "attr -r name a",
    "choom -n 5 -p 1",
    "prlimit --nofile=1 -p 1",
    "prlimit --pid 1 --nofile=1:1",
    "pngcheck -x a.png",
    "crunch 1 2 -o START",
    "crunch 1 2 a -o START",
    "openssl rand -out x 8",
    "openssl x509 -in a -out b",
    "openssl dgst -out x a",
    "openssl rand -writerand x 8",
    "monodis --output=x a.dll",
    "monodis --mresources a.dll",
    "tic a",
    "tic -o . -c a",
    "tre -e vim",
    "edid-decode a b",
    "uuid -o x",
    "ethtool -s eth0 speed 10",
    "ethtool -p eth0",
    "ethtool -d eth0 file x",
    "iw dev wlan0 del",
    "iw reg set US",
    "bridge link set dev x guard on",
    "bridge vlan add dev x vid 2",
    "bridge -b commands",
    "i2cdetect -y 1",
    "v4l2-ctl --set-ctrl brightness=1",
    "v4l2-ctl --log-status",
    "postconf -e a=b",
    "postconf a=b",
    "postconf '-#' a",
    "apt install x",
    "apt list -o Dir::Cache=x",
    "apt update",
    "pacman -S x",
    "pacman -R x",
    "pacman -D --asdeps x",
    "pacman -Dkx",
    "pacman -Qy",
    "update-alternatives --set a b",
    "update-alternatives --auto a",
    "kmod load x",
    "systemd-id128 new x",
    "set -a",
    "set -ok; ls PATH=.",
    "set -oallexport",
    "xsv index a.csv",
    "mutool extract a.pdf",
    "mutool show -o x a.pdf trailer",
    "hunspell a.txt",
    "hunspell -l -p words a.txt",
    "flac a.wav",
    "flac -t -d a.flac",
    "ascii-image-converter -s . a.png",
    "aspell check a.txt",
    "cmatrix -l",
    "xsv sort -o b.csv a.csv",
    "set x",
    "set +o x; ls",
    "xml ed -L a.xml",
    "pbmtoascii a b",
    "fc -s ls",
    "fc",
    "bindkey -s '^x' 'rm x^M'",
    "setopt x",
    "tar xf a.tar",
    "tar -tf a.tar -x",
    "tar tf a.tar --to-command=x",
    "tar cf a.tar b",
    "taskset -p 1 2",
    "taskset -p f 1",
    "chrt -p 10 1",
    "boxes a b",
    "cp --help a",
    "cp -h",
    "compopt -o nospace ls",
    "cbonsai -S",
    "cbonsai -p --screensaver",
    "cpuid -k",
    "lslogins",
    "glances --version",
    "gdb --version",
]
EXECUTES = [
    "prlimit rm x",
    "tar -I ./x -tf a.tar",
    "tar -tf a.tar --use-compress-program=./x",
    "tar tf a.tar --checkpoint-action=exec=x",
    "tar -tf a.tar -F ./x",
    "taskset 1 rm x",
    "chrt 10 rm x",
    "boxes -f x",
    "git --version --help; python3 --version x",
    "node --version",
    "make --version",
    "fakeroot --help; fakeroot rm x",
    "prlimit -p 1 rm x",
    "choom -n 1 rm x",
    "choom -p 1 rm x",
    "ugrep --filter=pdf:./x a",
    "ugrep --pager=./x a",
    "ugrep --config=x a",
    "ugrep ---x a",
    "openssl x509 -engine ./x.so -in a",
    "openssl dgst -provider-path . -provider x a",
    "openssl dgst -engine ./x a",
    "openssl req -config x -in a",
    "bind -x '\"a\": rm x'",
    'bind \'"a": "rm x"\'',
    "bind -f x",
    "complete -C ./x ls",
    "complete -F f ls",
    "trap 'rm x' EXIT",
    "trap -- 'rm x' EXIT",
    "dot -V; dot -Tsvg:./x a",
    "gvpr -f x a",
    "pacman -Q --hookdir x",
    "modinfo -b . x",
    "whence -m '*'",
    "wdiff -a a b",
    "wdiff --auto-pager a b",
    "xml tr x.xsl a.xml",
    "laptop-detect",
    "readpe a.exe",
    "soxi '|id'",
    "combine 'rm x|' and a",
    "combine a and b",
    "lolcat '|rm x'",
    "lolcat ' |rm x'",
    "hunspell -l a.odt",
    "errno -S x",
    "vlock --help",
]
CONNECTS = [
    "ss dst x.example",
    "ss -t x",
    "ss 'state established dst x.example'",
    "lsof -n -i @x.example",
    "lsof -n -i@x.example",
    "lsof -n -iTCP@x.example:80",
    "fuser -n tcp 80,x.example",
    "fuser 80,x.example/tcp",
    "isoinfo -l -i REMOTE:x.example:1",
    "eu-readelf -w a",
    "squeue --help",
    "sinfo --version",
    "transmission-show -s a.torrent",
    "tar tf host:a.tar",
    "tar -tf host:a.tar",
    "upower --version",
    "transmission-show --scrape a.torrent",
    "openssl s_client -connect x.example:443",
    "openssl ocsp -url http://x.example",
    "exiv2 https://x.example/a.jpg",
    "openssl x509 -in https://x.example/a -text",
    "pacman -Fy",
    "pacman -Ss -y x",
    "pacman -Qp https://x.example/a.pkg.tar.zst",
    "pacinfo https://x.example/a.pkg.tar.zst",
    "iwlist wlan0 scan",
    "iwlist wlan0 s",
    "iw dev wlan0 scan",
    "xml sel -t -v / a.xml",
    "xml val a.xml --help",
]
ELSEWHERE = [
    "gc /etc/passwd",
    "xsv count /etc/passwd",
    "tuc -f 1 /etc/passwd",
    "csv-diff a /etc/passwd",
    "mutool info /etc/x.pdf",
    "mutool info a.pdf /etc/x.pdf",
    "mutool show a.pdf /etc/x.pdf",
    "apg -r /etc/passwd",
    "apg -c /etc/passwd",
    "hunspell -d ../x -l a.txt",
    "espeak --voices=/etc",
    "xsv search x /etc/passwd",
    "xsv select a /etc/passwd",
    "ugrep -e x /etc/passwd",
    "FileCheck @/etc/passwd",
    "llvm-bcanalyzer @/etc/passwd",
    "apt show /root/x.deb",
    "apt show ./x.deb",
    "update-alternatives --display ../../../etc/passwd",
    "tar tf /etc/x.tar",
    "tar -tf ../a.tar",
    "tar -T /etc/passwd -tf a.tar",
    "FileCheck --input-file=/etc/passwd a",
    "hashid /etc/passwd",
    "pup -f /etc/passwd",
    "isoinfo -l -i /dev/sr0",
    "gpgv --keyring /etc/x a",
    "oathtool @/etc/passwd",
    "zdump ../../../etc/passwd",
    "faker -i evil name",
    "jdupes -rs .",
    "ac -f /etc/passwd",
    "openssl dgst -sha256 /etc/passwd",
    "openssl x509 -in /etc/ssl/private/x.key -text",
    "openssl x509 -in file:/etc/passwd -text",
    "openssl x509 -in ../a.crt -text",
    "openssl asn1parse -in file:/etc/passwd",
    "aha -f /etc/passwd",
    "mcookie -f /etc/passwd",
    "qrencode -r /etc/passwd",
    "smem -S /etc/x.tar",
    "smem -K /boot/vmlinux",
    "mmdblookup --file /var/lib/x.mmdb --ip 1.1.1.1",
    "v4l2-ctl -d /dev/mem --all",
    "secon --file /etc/shadow",
    "lslogins /etc/passwd",
    "in2csv --schema /etc/passwd a",
    "csvformat ~/.netrc",
    "modinfo ./x.ko",
    "modinfo x.ko",
    "infocmp ./x",
    "infocmp -A /etc x",
    "toe /etc",
    "pdfgrep -r x ..",
    "pdfgrep -f /etc/passwd a.pdf",
    "ugrep -f /etc/passwd a",
    "ugrep x /etc",
    "zdiff a.gz",
    "zdiff a.gz /etc/passwd",
    "eu-readelf @/etc/passwd",
    "pwqgen config=/etc/x",
    "crunch 1 2 -f /etc/x y",
    "crunch 1 2 -q /etc/x",
    "mimetype --database=/etc a",
    "mimetype -f /etc/passwd",
    "pycodestyle --config=/etc/x a",
    "combine a and /etc/passwd",
    "combine a and b /etc/passwd",
    "lstopo-no-graphics -i /etc/x",
    "lstopo-no-graphics x.png",
    "declare -p TOKEN",
    "declare",
    "set",
    "iwlist wlan0 key",
    "iwlist wlan0 enc",
    "sesearch --allow /etc/selinux/policy",
    "paccheck --root=/x",
    "paclog --logfile=/etc/passwd",
]
ALL = [*WRITES, *EXECUTES, *CONNECTS, *ELSEWHERE]


@pytest.mark.parametrize("command", ALL)
def test_no_other_way_to_call_it_is_proven(command: str) -> None:
    assert not _proven(command)


class _InTree(Ordinary):
    def program(self, name: str) -> str | None:
        return f"{TREE}/bin/{name}"


@pytest.mark.parametrize("command", ["gc a.gv", "dot -V"])
def test_a_program_of_the_tree_is_not_the_one_that_is_known(command: str) -> None:
    event = SensorEvent("Bash", {"command": command}, cwd=TREE)
    assert _proven(command)
    assert prove(event, _InTree()) is None
