//! References joined to base URIs (RFC 3986, section 5.2), without access to their targets.

/// The parts of a URI reference; None without its delimiter.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Return a reference without its fragment, and the fragment.
pub fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// Resolve a reference, without its fragment, against a base URI.
pub fn join(base: &str, reference: &str) -> String {
    let reference = split(reference).0;
    let base = split(base).0;
    if reference.is_empty() {
        return base.to_owned();
    }
    let (own, base) = (parts(reference), parts(base));
    let merged;
    let path = if own.scheme.is_some() || own.authority.is_some() {
        own.path
    } else if own.path.is_empty() {
        base.path
    } else if own.path.starts_with('/') {
        own.path
    } else {
        merged = match base.path.rfind('/') {
            Some(end) => format!("{}{}", &base.path[..=end], own.path),
            None if base.authority.is_some() => format!("/{}", own.path),
            None => own.path.to_owned(),
        };
        &merged
    };
    let takes_query = own.scheme.is_none() && own.authority.is_none() && own.path.is_empty();
    let query = if takes_query { own.query.or(base.query) } else { own.query };
    let authority =
        if own.scheme.is_some() { own.authority } else { own.authority.or(base.authority) };
    let scheme = own.scheme.or(base.scheme);
    let mut out = String::new();
    if let Some(scheme) = scheme {
        out.push_str(&scheme.to_ascii_lowercase());
        out.push(':');
    }
    if let Some(authority) = authority {
        out.push_str("//");
        out.push_str(authority);
    }
    out.push_str(&without_dots(path));
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
    out
}

fn parts(uri: &str) -> Parts<'_> {
    let (scheme, rest) = match uri.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, uri),
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, rest),
    };
    Parts { scheme, authority, path, query }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.'))
}

fn without_dots(path: &str) -> String {
    if !path.contains("/.") && !path.starts_with('.') {
        return path.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut steps = path.split('/').peekable();
    let is_absolute = path.starts_with('/');
    if is_absolute {
        steps.next();
    }
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        match step {
            "." | ".." => {
                if step == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(step),
        }
    }
    let joined = kept.join("/");
    if is_absolute { format!("/{joined}") } else { joined }
}

/// Return a fragment with `%41` replaced by `A`; unchanged if the result is not UTF-8.
pub fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| fragment.get(at + 1..at + 3))
            .flatten()
            .filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| fragment.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{decoded, join};

    #[test]
    fn references_are_joined_as_the_rfc_says() {
        let base = "http://a/b/c/d;p?q";
        for (reference, expected) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("./g/../h", "http://a/b/c/h"),
        ] {
            assert_eq!(join(base, reference), expected, "{reference}");
        }
        assert_eq!(join("urn:uuid:1", "#a"), "urn:uuid:1");
        assert_eq!(join("file:///a.json", "b.json"), "file:///b.json");
    }

    #[test]
    fn fragments_are_decoded() {
        assert_eq!(decoded("/a%25b%20"), "/a%b ");
        assert_eq!(decoded("%zz%"), "%zz%");
        assert_eq!(decoded("%+1%-1"), "%+1%-1");
    }
}
