"""Kinds of commands that a careful user wants to be asked about, each in several spellings, and what looks like them.

Families, not cases: each is a program's verb or a way of writing, filled with several targets. Both engines are held to
each line.
"""

from __future__ import annotations

import itertools

import pytest

from interlock.engine.analysis.intents import intents
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from tests.unit.both_engines import coding_agent, native_or_none

MET = (Verdict.BLOCK, Verdict.ESCALATE)


def _event(command: str) -> SensorEvent:
    return SensorEvent("Bash", {"command": command}, cwd="/home/dev/app")


def _verdict(command: str) -> Verdict:
    """What both engines say."""
    outcome, native = evaluate(coding_agent(), _event(command)), native_or_none()
    assert outcome.cause is None, command
    if native is not None:
        assert native.evaluate(coding_agent(), _event(command)).decision == outcome.decision, command
    return outcome.decision.verdict


def _names(command: str) -> set[str]:
    return {i.name for i in intents(_event(command))}


# -- what is gone for good ------------------------------------------------------------------------------------------

ERASERS = ("shred -u {}", "shred -n 3 -z {}", "srm -rf {}", "srm {}", "scrub -p dod {}", "wipe -rf {}", "sfill -v {}")


@pytest.mark.parametrize("form", ERASERS)
def test_overwriting_what_nothing_brings_back_is_asked_for(form: str) -> None:
    for path in ("notes.txt", "src/*.py", "~/Documents", '"$FILE"', "path/to/file"):
        assert _verdict(form.format(path)) in MET, form.format(path)
    assert "fs.erase" in _names(form.format("notes.txt"))


@pytest.mark.parametrize("form", ["shred -u {}", "srm {}"])
def test_overwriting_a_temporary_file_is_not(form: str) -> None:
    for path in ("/tmp/key", "/tmp/a/b.pem"):
        assert _verdict(form.format(path)) is Verdict.ALLOW
    for command in ("shred --help", "man shred", "which srm", "grep -rn 'shred -u' .", "git commit -m 'shred -u x'"):
        assert _verdict(command) is Verdict.ALLOW, command


DISKS = (
    "bcachefs format {}",
    "bcachefs format --label a {}",
    "btrfs device remove {} /mnt",
    "systemd-cryptenroll --wipe-slot all {}",
    "sg_sanitize --crypto {}",
    "dcfldd if=/dev/zero of={}",
    "dc3dd wipe=x of={}",
    "bmaptool copy a.img {}",
    "ddrescue -f /dev/sda {} map",
    "ventoy -i {}",
    "sudo woeusb --device w.iso {}",
    "partclone.restore -s a.img -o {}",
    "grub-install {}",
    "resize2fs {} 1G",
    "mdadm --create {} --level=0 -n2 /dev/sdx /dev/sdy",
    "sfdisk {} < layout.dump",
)


@pytest.mark.parametrize("form", DISKS)
def test_disks_are_not_written_over_unasked(form: str) -> None:
    for disk in ("/dev/sdb", "/dev/nvme0n1", "/dev/sdX"):
        assert _verdict(form.format(disk)) in MET, form.format(disk)
        assert _verdict("sudo " + form.format(disk)) in MET, form.format(disk)


@pytest.mark.parametrize(
    "command",
    [
        "bcachefs fs usage /mnt",
        "btrfs device usage /mnt",
        "bmaptool create -o a.bmap a.img",
        "ddrescue /dev/sda image.img map",
        "e2image -r /dev/sda1 a.img",
        "mdadm --detail /dev/md0",
        "dcfldd if=/dev/sda of=a.img hash=sha256",
        "grub-install --version",
        "resize2fs /dev/sda1",
        "flashrom -p internal -r backup.bin",
    ],
)
def test_reading_a_disk_is_not_stopped(command: str) -> None:
    assert _verdict(command) is Verdict.ALLOW


# -- machines, clusters, devices, backups, keys ---------------------------------------------------------------------

DESTROYED = (
    "virsh undefine {} --remove-all-storage",
    "virsh destroy {}",
    "lxc delete {} --force",
    "incus delete {}",
    "multipass delete --purge {}",
    "vagrant destroy -f {}",
    "VBoxManage unregistervm {} --delete",
    "qm destroy {} --purge",
    "machinectl remove {}",
    "kind delete cluster --name {}",
    "minikube delete -p {}",
    "k3d cluster delete {}",
    "argocd app delete {} --cascade",
    "helmfile destroy -l name={}",
    "openstack server delete {}",
    "fastboot erase {}",
    "fastboot flashing unlock {}",
    "adb shell pm uninstall {}",
    "esptool.py --chip esp32 erase_flash {}",
    "flashrom -p internal -w {}",
    "keyctl clear {}",
    "certbot delete --cert-name {}",
    "tarsnap -d -f {}",
    "duplicity remove-older-than 1M --force file:///{}",
    "tmutil delete {}",
    "s5cmd rm 's3://{}/*'",
    "influx delete --bucket {}",
    "sqlx database drop -D {}",
    "mongorestore --drop {}",
    "pg_restore --clean -d {} a.dump",
    "pass rm -rf {}",
    "sometool destroy {}",
    "sometool volume wipe {}",
    "./bin/tool db:drop {}",
    "sometool --factory-reset {}",
    "sometool -n {} destroy",
    "sometool destroy -n {}",
    "sometool -h {} flushall",
    "sometool --yes destroy-all {}",
    "sometool destroy --dry-run=false {}",
)


@pytest.mark.parametrize("form", DESTROYED)
def test_what_somebody_looks_after_is_not_destroyed_unasked(form: str) -> None:
    for name in ("prod", "100", "my-thing"):
        for before in ("", "sudo ", "env A=1 ", "true && "):
            assert _verdict(before + form.format(name)) in MET, form.format(name)


@pytest.mark.parametrize(
    "command",
    [
        "virsh list --all",
        "lxc list",
        "lxc exec box -- ls",
        "multipass list",
        "vagrant up",
        "VBoxManage startvm a",
        "kind create cluster",
        "minikube start",
        "argocd app list",
        "fastboot devices",
        "adb devices",
        "adb logcat -c",
        "esptool.py chip_id",
        "keyctl show",
        "certbot renew",
        "tarsnap -c -f a src",
        "influx bucket list",
        "sqlx migrate run",
        "pg_restore -d app a.dump",
        "pg_dump --clean app",
        "sometool destroy --dry-run x",
        "sometool --help destroy",
        "sometool test destroyed-things",
        "npm run db:reset:test",
        "ruff format src",
        "module purge",
        "./scripts/destroy-env.sh --dry-run",
    ],
)
def test_looking_after_them_is_not_stopped(command: str) -> None:
    assert _verdict(command) is Verdict.ALLOW


@pytest.mark.parametrize(
    "form",
    [
        "run zap now",
        "yarn zap",
        "just {}",
        "task {}-all",
        "pytest -k {}",
        "jest {}",
        "phpunit --filter {}",
        "coverage erase",
        "nx run app:{}",
        "mytool --grep {}",
        "mytool -t {}",
        "mytool search {}",
        "mytool help {}",
        "mytool pre-{} x",
        "mytool wipe-cache x",
        "mytool cache wipe",
        "mytool wipe",
        "./dev.sh teardown",
        "meson setup --wipe build",
        "mytool {} -n",
        "mytool {} --noop",
    ],
)
def test_a_word_among_the_arguments_is_no_order_to_destroy_where_it_is_a_name(form: str) -> None:
    for word in ("destroy", "erase-all"):
        assert _verdict(form.format(word)) is Verdict.ALLOW, form.format(word)


# -- everything of a kind ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "docker rm -f $(docker ps -aq)",
        "docker ps -aq | xargs docker rm -f",
        "docker rmi -f $(docker images -q)",
        "podman ps -a -q | xargs -r podman rm",
        "redis-cli KEYS 'a:*' | xargs redis-cli DEL",
        "redis-cli --scan | xargs -L 100 redis-cli unlink",
        "ls | xargs rm -rf",
        "ls -A | xargs -I{} rm -rf {}",
        "ls -d */ | xargs rm -rf",
        "find ~ -mtime +30 -delete",
        "find ~ -size +1M -exec rm {} +",
        "find / -type f -print0 | xargs -0 grep -lZ x | xargs -0 rm -f",
        "grep -rl x / | xargs true; find / -type f | xargs grep -l x | xargs rm",
        "find / -perm -4000 -exec chmod 777 {} +",
    ],
)
def test_all_that_a_program_lists_is_not_given_to_one_that_deletes(command: str) -> None:
    assert _verdict(command) in MET


@pytest.mark.parametrize(
    "command",
    [
        "docker rm -f web",
        "docker rm $(docker ps -aq --filter name=test)",
        "docker ps -q | xargs docker inspect",
        "redis-cli del session:1",
        "ls *.tmp | xargs rm -f",
        "ls -t *.bak | tail -n +5 | xargs rm -f",
        "ls | grep '[.]o$' | xargs rm -f",
        "ls | head -3 | xargs wc -l",
        "find . -name '*.orig' -print0 | xargs -0 rm -f",
        "find ~ -name '*.swp' -delete",
        "find src -name '*.py' | xargs grep -l x | xargs sed -i s/a/b/",
    ],
)
def test_some_of_it_may_be(command: str) -> None:
    assert _verdict(command) is Verdict.ALLOW


# -- code of scripting languages -------------------------------------------------------------------------------------

CODE = (
    "import shutil, os; shutil.rmtree(os.path.expanduser('~'))",
    "import shutil, pathlib; shutil.rmtree(pathlib.Path.home())",
    "from pathlib import Path; [p.unlink() for p in Path('/home/dev').rglob('*')]",
    "import os, glob; [os.remove(f) for f in glob.glob('/etc/*')]",
    "import os\nfor f in os.listdir('/etc'):\n    os.remove(f)",
    "import redis; redis.Redis().flushall()",
    "import x; x.connect().cursor().execute('DROP TABLE users')",
    "import x; x.run().execute('delete from users')",
    "from m import T; T.objects.all().delete()",
    "import boto3; boto3.resource('s3').Bucket('b').objects.all().delete()",
    "import requests; requests.delete('https://api.x.example/v1/customers/1')",
    "import pymongo; pymongo.MongoClient().x.users.delete_many({})",
)
MILD = (
    "import shutil; shutil.rmtree('build')",
    "import shutil, os; shutil.rmtree(os.path.join(os.path.expanduser('~'), '.cache/pip'))",
    "from pathlib import Path; [p.unlink() for p in Path('.').rglob('*.pyc')]",
    "import glob, os; [os.remove(f) for f in glob.glob('build/*')]",
    "import sqlite3; sqlite3.connect(':memory:').execute('drop table t')",
    "import x; x.c().execute('select 1 from users')",
    "import requests; requests.delete('http://localhost:8000/users/1')",
    "print('x.flushall() and DROP TABLE users')",
    "import redis; print(redis.Redis().get('flushall'))",
)


@pytest.mark.parametrize("code", CODE)
def test_code_that_loses_all_of_something_is_asked_for_however_it_is_given(code: str) -> None:
    for form in ('python3 -c "{}"', "python3 - <<'EOF'\n{}\nEOF", "cat > a.py <<'EOF'\n{}\nEOF\npython3 a.py"):
        assert _verdict(form.format(code)) in MET, form.format(code)


@pytest.mark.parametrize("code", MILD)
def test_code_that_loses_little_is_not_stopped(code: str) -> None:
    for form in ('python3 -c "{}"', "python3 - <<'EOF'\n{}\nEOF"):
        assert _verdict(form.format(code)) is Verdict.ALLOW, form.format(code)


@pytest.mark.parametrize(
    "command",
    [
        'node -e "fs.rmSync(process.env.HOME,{recursive:true})"',
        "node -e \"require('rimraf').sync('/home/dev')\"",
        "ruby -e 'Dir.glob(\"/etc/*\"){|f| File.delete(f)}'",
        'php -r \'array_map("unlink", glob("/etc/*"));\'',
        "julia -e 'rm(homedir(), recursive=true)'",
    ],
)
def test_other_languages_are_read_as_well(command: str) -> None:
    assert _verdict(command) is Verdict.BLOCK


GLUED = (
    'python3 -c"{}"',
    'python3 -Sc"{}"',
    'python3 -W ignore -c "{}"',
    'pypy3 -X dev -Ic "{}"',
    'perl -e"{}"',
    'perl -0777ne"{}"',
    'perl -MFile::Path=rmtree -lne"{}"',
    'ruby -r json -e "{}"',
    'ruby -e"{}"',
    'php -d a=b -r "{}"',
    'php -r"{}"',
    'php -R "{}"',
    'lua -l x -e"{}"',
    'node --eval="{}"',
    'node --require x -e "{}"',
    'nodejs --print "{}"',
    'julia --eval="{}"',
)


@pytest.mark.parametrize("form", GLUED)
def test_code_is_found_where_it_is_glued_to_its_option_or_behind_others(form: str) -> None:
    for before in ("", "sudo ", "timeout 5 "):
        assert _verdict(before + form.format("system('rm -rf /')")) is Verdict.BLOCK, form


@pytest.mark.parametrize(
    "command",
    [
        "curl -s localhost:8000/api | python -mjson.tool",
        "curl -s https://x.example/a.json | python3 -Im json.tool",
        "python3 -mpytest -q",
        "perl -Mstrict -i.bake a.pl",
        "perl -l a.pl",
        "pwsh -NoProfile -Command 'Get-ChildItem'",
        "pwsh -NoLogo -NonInteractive -File build.ps1",
        "M=$(mktemp -up /dev/mapper)",
        "echo x | tee /proc/self/fd/3",
        "visudo -c",
        "rm -f app*",
        "rm -rf lib*",
        "jj abandon @",
        "cargo yank --undo x@1",
    ],
)
def test_ordinary_spellings_of_options_hide_nothing(command: str) -> None:
    assert _verdict(command) is Verdict.ALLOW


def test_encoded_commands_of_powershell_are_hidden_however_the_option_is_spelled() -> None:
    for option in ("-EncodedCommand", "-enc", "-Enc", "-E", "-ec"):
        assert _verdict(f"pwsh -NoProfile {option} AAAA") in MET, option
    assert _verdict("pwsh -NoProfile -Command 'rm -rf /'") is Verdict.BLOCK


# -- ways to a shell -----------------------------------------------------------------------------------------------

WAYS = (
    "printf '{}' | xargs -0 sh -c",
    "fzf --bind 'enter:execute({})'",
    "ls | fzf --bind='ctrl-x:become({})'",
    "gh alias set x '!{}'",
    "apt-get -o APT::Update::Pre-Invoke::='{}' update",
    "printf 'all:\\n\\t{}\\n' > Makefile && make",
)


@pytest.mark.parametrize(("way", "command"), list(itertools.product(WAYS, ["rm -rf /srv", "mkfs.ext4 /dev/sda"])))
def test_a_command_is_found_on_more_ways_to_a_shell(way: str, command: str) -> None:
    assert _verdict(way.format(command)) in MET, way.format(command)


def test_what_another_machine_prints_does_not_run_here_unseen() -> None:
    assert _names("ssh h cat x | sh") >= {"net.fetch_exec"}
    assert _verdict("ssh h cat x | tar x") is Verdict.ALLOW
    assert _verdict("ssh h cat x > y") is Verdict.ALLOW


def test_a_program_named_by_a_pattern_is_the_one_it_would_be() -> None:
    for name in ("/bin/r?", "/usr/bin/r*", "/???/?m"):
        assert _verdict(f"{name} -rf /") in MET, name
    assert _verdict("/usr/bin/py* -V") is Verdict.ALLOW


# -- accounts, traces, defences, other people's packages -------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "userdel -r bob",
        "dscl . -delete /Users/bob",
        "sysadminctl -deleteUser bob",
        "socket -svp '/bin/sh -i' 12345",
        "mv /usr/lib /tmp",
        "dd if=/dev/zero of=/var/log/syslog",
        "launchctl unload -w /System/Library/LaunchDaemons/ssh.plist",
        "svn revert -R .",
        "hg update --clean",
        "rclone sync empty remote:bucket",
        "restic forget latest",
        "scp x h:/etc/nginx/nginx.conf",
        "gitlab-runner unregister --all-runners",
        "npx shx rm -rf ~/x",
        "kexec -e",
        "sudo deluser bob",
        "groupdel docker",
        "echo 'root:x' | sudo chpasswd",
        "rm -f ~/.bash_history",
        ": > ~/.zsh_history",
        "truncate -s 0 ~/.bash_history",
        "shred -u ~/.python_history",
        "history -c && history -w",
        "rm ~/.ssh/id_ed25519",
        "rm -f ~/.aws/credentials",
        "systemctl disable --now firewalld",
        "sudo systemctl mask auditd",
        "sysctl -w kernel.randomize_va_space=0",
        "iptables -P INPUT ACCEPT",
        "apt-get purge -y libc6",
        "dnf remove -y systemd",
        "rpm -e --nodeps bash",
        "dpkg --purge --force-all bash",
        "mvn clean deploy",
        "./gradlew publish",
        "dotnet nuget push a.nupkg",
        "npm owner rm bob pkg",
        "rsync -a --delete dist/ h:/var/www/",
        "git update-ref --stdin <<< 'delete refs/heads/main'",
        "git branch -f main HEAD~3",
        "git read-tree --reset -u HEAD~3",
        "git checkout-index -f -a",
        "git prune --expire=now",
        "terraform apply -auto-approve",
        "kubectl apply --prune -f k8s --all",
        "gh repo edit o/r --visibility public",
    ],
)
def test_more_that_a_careful_user_wants_to_be_asked(command: str) -> None:
    assert _verdict(command) in MET


@pytest.mark.parametrize(
    "command",
    [
        "history | tail",
        "dscl . -list /Users",
        "socket h 80",
        "mv /mnt/a/b /tmp",
        "mv /etc/nginx/a.conf /etc/nginx/b.conf",
        "cat /var/log/syslog",
        "launchctl unload ~/Library/LaunchAgents/a.plist",
        "svn revert a.c",
        "hg update",
        "jj log",
        "rclone sync --dry-run a remote:bucket",
        "restic forget --dry-run latest",
        "scp x h:/home/dev/nginx.conf",
        "kexec -l vmlinuz",
        "cat ~/.bash_history | wc -l",
        "rm ~/.ssh/id_ed25519.pub",
        "rm -f .env.tmp",
        "systemctl restart nginx",
        "systemctl stop nginx",
        "sysctl kernel.randomize_va_space",
        "iptables -L",
        "apt-get remove -y jq",
        "mvn clean package",
        "./gradlew publishToMavenLocal",
        "dotnet build",
        "rsync -a dist/ h:/var/www/",
        "rsync -an --delete dist/ h:/var/www/",
        "git branch -f",
        "git checkout-index --prefix=/tmp/x/ -a",
        "terraform apply plan.out",
        "kubectl apply -f k8s",
        "gh repo edit o/r --description 'made public'",
    ],
)
def test_and_what_is_like_it_and_ordinary(command: str) -> None:
    assert _verdict(command) is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "rm -rf /tmp/x",
        "rm -rf ~/.cache/pip",
        "rm ~/notes.txt",
        "find /srv -name '*.php' -exec rm -f {} \\;",
        "systemctl stop nginx",
        "docker stop web",
        "docker rm -f web",
        "ip link set eth0 down",
        "umount /mnt",
        "kubectl config delete-context dev",
        "git remote remove origin",
        "git tag -d v1",
        "trash notes.txt",
        "apt-get remove -y jq",
        "curl -X DELETE 'http://localhost:9200/_all'",
        "aws ec2 stop-instances --instance-ids i-1",
        "helm rollback web 1",
        "docker push r.example/app:1",
        "git push origin main",
        "GIT_SSH_COMMAND='ssh -i k' git fetch origin",
        "bash x.sh",
        "at -f x.sh midnight",
        "ssh h bash -s < x.sh",
        "xargs rm < list",
        "sudo id",
        "cat /etc/passwd",
        "history -c",
    ],
)
def test_what_is_let_through_on_purpose(command: str) -> None:
    """docs/reference/shell.md lists these kinds."""
    assert _verdict(command) is Verdict.ALLOW
