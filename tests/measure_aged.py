"""An image that is written over at random many times, on a device that it nearly fills: whether writes become slower with age."""
import measured
from measure_images import POOL, fio, image, rbd
from measured import ceph, names, table

# The device, and how often its bytes are written over.
DEVICE_GIB = 2
TIMES = 11
# Of the device, so that the store has room for its own: a full one would hold writes back.
IMAGE_MIB = 1280


def aged(make, _options):
    """One system after the other: the first round finds what was written once in order, the last one what ten rounds have left."""
    measured.WHOLE_BYTES = DEVICE_GIB << 30
    rows = []
    for factory in make:
        system = factory()
        try:
            system.up("durable", 1, whole=True)
            ceph(system, "osd", "pool", "create", POOL, "32")
            rbd(system, "pool", "init", POOL)
            image(system, IMAGE_MIB)
            for number in range(TIMES):
                row = fio(system, f"written over, {DEVICE_GIB} GiB, {number + 1} of {TIMES}", "whole", "randwrite",
                          f"--io_size={DEVICE_GIB}g", timeout=1800)
                rows.append({**row, "time": number + 1})
        finally:
            system.down()
    return rows


def print_aged(rows):
    print(f"An image of {IMAGE_MIB} MiB on a device of {DEVICE_GIB} GiB, fio rbd, 4 KiB random writes, 16 in flight, "
          f"{DEVICE_GIB} GiB a time")
    for name in names(rows):
        some = [r for r in rows if r["system"] == name]
        first, last = some[0]["ops_per_s"], some[-1]["ops_per_s"]
        table((name, "operations/s", "of the first time's", "CPU us/op"),
              [(str(r["time"]), f"{r['ops_per_s']:.0f}", f"{r['ops_per_s'] / first:.2f}", f"{r['cpu_us_per_op']:.1f}") for r in some])
        print(f"{name}: the last time at {last / first:.0%} of the first one's speed")
