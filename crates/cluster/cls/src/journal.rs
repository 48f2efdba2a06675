//! Class `journal`: a journal's header, with its clients and tags, and appends to its objects.

mod append;
mod client;
mod header;
mod tag;
mod types;

use ops::{Method, ObjectClass};

#[cfg(test)]
pub(crate) use types::*;

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "journal",
    methods: &[
        Method::read_write("create", header::create),
        Method::read("get_order", header::get_order),
        Method::read("get_splay_width", header::get_splay_width),
        Method::read("get_pool_id", header::get_pool_id),
        Method::read("get_minimum_set", header::get_minimum_set),
        Method::read_write("set_minimum_set", header::set_minimum_set),
        Method::read("get_active_set", header::get_active_set),
        Method::read_write("set_active_set", header::set_active_set),
        Method::read("get_client", client::get_client),
        Method::read_write("client_register", client::client_register),
        Method::read_write("client_update_data", client::client_update_data),
        Method::read_write("client_update_state", client::client_update_state),
        Method::read_write("client_unregister", client::client_unregister),
        Method::read_write("client_commit", client::client_commit),
        Method::read("client_list", client::client_list),
        Method::read("get_next_tag_tid", header::get_next_tag_tid),
        Method::read("get_tag", tag::get_tag),
        Method::read_write("tag_create", tag::tag_create),
        Method::read("tag_list", tag::tag_list),
        Method::read_write("guard_append", append::guard_append),
        Method::read_write("append", append::append),
    ],
};
