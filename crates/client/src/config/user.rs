//! The name of the current user.

use std::{env, fs};

/// Returns the name of the current user, as Hadoop determines it.
pub fn login_name() -> String {
    ["HADOOP_USER_NAME", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_else(name_of_user_id)
}

/// Returns the name of the process's user id, or the id if `/etc/passwd` has no name for it.
pub(super) fn name_of_user_id() -> String {
    let id = rustix::process::getuid().as_raw().to_string();
    let users = fs::read("/etc/passwd").unwrap_or_default();
    name_of(&String::from_utf8_lossy(&users), &id).unwrap_or(id)
}

fn name_of(users: &str, id: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_the_user_id() {
        let users =
            "# users\n+::::::\nroot:x:0:0:root:/root:/bin/sh\n:x:7:7::/:\nci:x:1000:1000::/home/ci:/bin/sh\n";
        let name = |id: &str| name_of(users, id);
        assert_eq!(name("1000").as_deref(), Some("ci"));
        assert_eq!(name("0").as_deref(), Some("root"));
        assert_eq!((name("7"), name("100")), (None, None));
    }
}
