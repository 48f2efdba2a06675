//! The tests of `cls` from outside: one program, so that it is linked once.

mod by_time;
mod cas;
mod cephfs_sdk;
mod cmpomap;
mod counters;
mod hello;
mod journal;
mod lock;
mod rbd;
mod rbd_pool;
