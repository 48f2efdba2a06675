"""Ceph's own test programs against a cluster of ours: every test that tests/api-allow.txt names must pass."""
import concurrent.futures

from api_suite import SETTINGS, Allow, run
from harness import expect

# Programs whose tests take seconds; the others wait for time-outs of watches and locks, or write much.
QUICK = """
ceph_test_cls_cas ceph_test_cls_cmpomap ceph_test_cls_hello ceph_test_cls_journal ceph_test_cls_log
ceph_test_cls_numops ceph_test_cls_rbd ceph_test_cls_refcount ceph_test_cls_sdk ceph_test_neocls_log
ceph_test_neocls_version ceph_test_rados_api_asio ceph_test_rados_api_c_read_operations
ceph_test_rados_api_c_write_operations ceph_test_rados_api_cmd ceph_test_rados_api_cmd_pp ceph_test_rados_api_io
ceph_test_rados_api_io_pp ceph_test_rados_api_lock ceph_test_rados_api_lock_pp
ceph_test_rados_api_stat ceph_test_rados_api_stat_pp
""".split()
SLOW = """
ceph_test_cls_lock ceph_test_rados_api_aio ceph_test_rados_api_aio_pp ceph_test_rados_api_misc
ceph_test_rados_api_misc_pp ceph_test_rados_api_pool ceph_test_rados_api_snapshots ceph_test_rados_api_snapshots_pp
ceph_test_rados_api_watch_notify ceph_test_rados_api_watch_notify_pp ceph_test_rados_io_sequence
ceph_test_rados_striper_api_aio ceph_test_rados_striper_api_io ceph_test_rados_striper_api_striping
""".split()
# Its tests set pg_num and pgp_num to 11: refused where PGs would merge or objects move to other OSDs.
ONE_OSD = ["ceph_test_rados_api_list"]
LIBRBD = ["ceph_test_librbd"]
# Each program makes pools of its own, and waits more than it works.
AT_ONCE = 3


def run_all(t, programs, seconds, at_once=AT_ONCE, osds=3, **more):
    allow = Allow()
    others = (set(allow.tests) | set(allow.left_out)) ^ set(QUICK + SLOW + ONE_OSD + LIBRBD)
    expect(not others, f"programs that are only in the list, or only here: {sorted(others)}")
    # Debian's 16.2 has no package of Ceph's tests, and some programs are in the list for one release.
    releases = [release for release in t.releases if any(allow.of(program, release) for program in programs)]
    settings = [word for key, value in {**SETTINGS, **more}.items() for word in ("--set", f"{key}={value}")]
    wrong = []
    for release in releases:
        # A test of the cluster's log would find there what the same test of another release has written.
        client = t.client(t.cluster("--store", "mem", "--osds", str(osds), *settings), release)
        jobs = [(program, tests) for program in programs if (tests := allow.of(program, release))]
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            wrong += [line for lines in pool.map(lambda job, c=client: run(c, *job, seconds), jobs) for line in lines]
    expect(not wrong, "\n".join(wrong))


def test_programs_that_take_seconds(t):
    run_all(t, QUICK, 600)


def test_programs_that_want_one_osd(t):
    run_all(t, ONE_OSD, 600, osds=1, osd_pool_default_pg_num="8")


def test_programs_that_wait(t):
    run_all(t, SLOW, 1800)


def test_librbd(t):
    run_all(t, LIBRBD, 3600, at_once=1)


test_programs_that_wait.soak_only = True
test_librbd.soak_only = True
