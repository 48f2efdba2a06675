//! Signatures: how a command is described to the programs that build and check its arguments.

use crate::fmt::Json;

/// The literal words of a signature, which are also the command's prefix.
pub fn prefix(signature: &str) -> String {
    signature.split(' ').filter(|word| !word.contains('=')).collect::<Vec<_>>().join(" ")
}

/// The signature as the JSON array that `get_command_descriptions` gives: words, and an object an argument.
pub fn describe(signature: &str) -> Json {
    Json::array(signature.split(' ').map(|word| {
        if word.contains('=') {
            word.split(',').fold(Json::object(), |object, pair| match pair.split_once('=') {
                Some((key, value)) => object.with(key, value),
                None => object,
            })
        } else {
            Json::from(word)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_becomes_words_and_objects() {
        let signature = "osd pool rm name=pool,type=CephPoolname name=n,type=CephInt,req=false";
        assert_eq!(prefix(signature), "osd pool rm");
        assert_eq!(
            describe(signature).compact(),
            r#"["osd","pool","rm",{"name":"pool","type":"CephPoolname"},{"name":"n","type":"CephInt","req":"false"}]"#
        );
    }
}
