#!/usr/bin/env python3
"""Records how a stock crushtool (Squid or later) places by multi-step retry rules.

    record.py DIRECTORY MAPS FIRST_SEED CRUSHTOOL...

writes SEED.map (the compiled map) and SEED.txt (each run's options, then what --show-mappings printed) for random maps.
CRUSHTOOL is a command that sees this machine's /tmp. The committed recordings are those of

    record.py crates/protocol/crush/tests/msr 6 1 tests/peers/in-root.sh 20.2 crushtool
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path


def bucket(kind, name, number, alg, items):
    lines = [f"{kind} {name} {{", f"\tid -{number}", f"\talg {alg}", "\thash 0"]
    lines += [f"\titem {item} weight {weight:.3f}" for item, weight in items]
    return "\n".join(lines + ["}", ""]), sum(weight for _, weight in items)


def tree(r, classes):
    """Racks of hosts of OSDs, no bucket empty: crushtool aborts on an empty one."""
    text, osd, number, racks = "", 0, 0, []
    algs = ["straw2"] if classes or r.random() < 0.6 else ["straw2", "straw", "list", "uniform"]
    devices = ""
    for rack in range(r.randint(1, 4)):
        hosts = []
        for host in range(r.randint(1, 5)):
            alg = r.choice(algs)
            items = []
            for _ in range(r.randint(1, 6)):
                weight = 1.0 if alg == "uniform" or r.random() < 0.6 else r.choice([0.25, 0.5, 2.0, 3.75])
                klass = r.choice([" class hdd", " class ssd"]) if classes else ""
                devices += f"device {osd} osd.{osd}{klass}\n"
                items.append((f"osd.{osd}", weight))
                osd += 1
            number += 1
            name = f"host{rack}-{host}"
            part, weight = bucket("host", name, number, alg, items)
            text += part
            hosts.append((name, weight))
        alg = r.choice([alg for alg in algs if alg != "uniform"])
        number += 1
        part, weight = bucket("rack", f"rack{rack}", number, alg, hosts)
        text += part
        racks.append((f"rack{rack}", weight))
    number += 1
    part, _ = bucket("root", "default", number, "straw2", racks)
    types = "type 0 osd\ntype 1 host\ntype 2 rack\ntype 3 root\n"
    return devices + types + text + part, osd


def rule(r, number, take):
    steps = []
    if r.random() < 0.3:
        steps.append(f"set_msr_descents {r.choice([1, 2, 5, 30])}")
    if r.random() < 0.3:
        steps.append(f"set_msr_collision_tries {r.choice([1, 3, 20])}")
    for _ in range(r.choice([1, 1, 1, 2])):
        steps.append(f"take {take}")
        # crushtool crashes where a step asks for racks below a rack.
        form = r.randrange(3 if take == "rack0" else 5)
        if form == 0:
            steps.append(f"choosemsr {r.randint(0, 5)} type osd")
        elif form == 1:
            steps += [f"choosemsr {r.randint(0, 4)} type host", "choosemsr 1 type osd"]
        elif form == 2:
            steps += [f"choosemsr {r.randint(1, 4)} type host", f"choosemsr {r.randint(1, 4)} type osd"]
        elif form == 3:
            steps += [f"choosemsr {r.randint(1, 3)} type rack", f"choosemsr {r.randint(1, 4)} type osd"]
        else:
            steps += [f"choosemsr {r.randint(1, 3)} type rack", f"choosemsr {r.randint(1, 3)} type host",
                      f"choosemsr {r.randint(1, 3)} type osd"]
        steps.append("emit")
    lines = [f"rule r{number} {{", f"\tid {number}", f"\ttype {r.choice(['msr_firstn', 'msr_indep'])}"]
    return "\n".join(lines + [f"\tstep {step}" for step in steps] + ["}", ""])


def source(r):
    classes = r.random() < 0.4
    text, osds = tree(r, classes)
    tunables = "tunable choose_total_tries 50\ntunable chooseleaf_stable 1\ntunable straw_calc_version 1\n"
    if r.random() < 0.3:
        tunables += f"tunable msr_descents {r.choice([3, 20])}\ntunable msr_collision_tries {r.choice([2, 10])}\n"
    for number in range(4):
        take = "default"
        if r.random() < 0.2:
            take = "rack0"
        if classes and "class ssd" in text and take == "default" and r.random() < 0.5:
            take += " class ssd"
        text += rule(r, number, take)
    return tunables + text, osds


def main():
    directory, maps, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    crushtool = sys.argv[4:]

    def run(*args):
        done = subprocess.run([*crushtool, *args], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{args}: {done.stderr[:300]}")
        return done.stdout

    for seed in range(first, first + maps):
        r = random.Random(seed)
        text, osds = source(r)
        with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
            (Path(scratch) / "text").write_text(text)
            run("-c", f"{scratch}/text", "-o", f"{scratch}/map")
            mappings = ""
            for replicas in r.sample(range(1, 15), 3):
                weights = []
                for osd in range(osds):
                    if r.random() < 0.25:
                        weights += ["--weight", str(osd), r.choice(["0", "0", "0.5", "0.25"])]
                args = ["--num-rep", str(replicas), "--min-x", "0", "--max-x", "24", *weights]
                mappings += "# " + " ".join(args) + "\n"
                mappings += run("-i", f"{scratch}/map", "--test", "--show-mappings", *args)
            (directory / f"{seed}.map").write_bytes((Path(scratch) / "map").read_bytes())
        (directory / f"{seed}.txt").write_text(mappings)


main()
