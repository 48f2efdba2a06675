"""Objects copied by OSDs (copy_from) and listings with a filter, by Ceph's own tests."""
from harness import expect

# Programs, and their tests that concern copies and filters.
TESTS = [("ceph_test_rados_api_misc_pp", "LibRadosMiscPP.CopyPP"), ("ceph_test_cls_hello", "ClsHello.Filter")]


def test_objects_are_copied_and_listed_with_a_filter(t):
    # Debian's 16.2 has no package of Ceph's tests.
    releases = [release for release in t.releases if release != "16.2"]
    if not releases:
        return
    cluster = t.cluster("--store", "mem", "--osds", "3", "--set", "osd_class_load_list=*",
                        "--set", "osd_class_default_list=*")
    for release in releases:
        client = t.client(cluster, release)
        for program, name in TESTS:
            ran = client.run(program, f"--gtest_filter={name}", timeout=120)
            expect("[  PASSED  ] 1 test." in ran.text, f"{release}: {name}: {ran.text[-300:]}")


test_objects_are_copied_and_listed_with_a_filter.both_cores = True
