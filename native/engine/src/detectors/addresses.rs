//! Addresses in their usual form, and which hosts are public ones: as `engine/detectors/hosts.py`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Hosts at which clouds hand out credentials to the machines that ask.
pub const CLOUD_METADATA: [&str; 14] = [
    "100.100.100.200",
    "169.254.169.253",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "192.0.0.192",
    "fd00:ec2::23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "instance-data",
    "metadata",
    "metadata.azure.internal",
    "metadata.goog",
    "metadata.google.internal",
];

const LOCAL: [&str; 14] = [
    "localhost",
    "local",
    "internal",
    "lan",
    "home.arpa",
    "intranet",
    "corp",
    "test",
    "invalid",
    "home",
    "localdomain",
    "private",
    "in-addr.arpa",
    "ip6.arpa",
];
/// Networks that are no public ones: address, bits of the prefix.
const NO_PUBLIC_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 29),
    ([192, 0, 0, 170], 31),
    ([192, 0, 2, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];
const NO_PUBLIC_V6: [([u16; 8], u32); 11] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 127), // :: and ::1
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),
];

/// Whether a label is a number of an address: decimal, or hexadecimal in small letters.
#[must_use]
pub fn is_number(label: &str) -> bool {
    if let Some(hex) = label.strip_prefix("0x") {
        return hex
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    }
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit())
}

/// An IPv6 address in its usual form, from one in brackets.
///
/// # Errors
/// One line, for what is none.
pub fn ipv6(text: &str) -> Result<String, &'static str> {
    let bad = "the address is no IPv6 address";
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or(bad)?;
    let (address, zone) = inner
        .split_once('%')
        .map_or((inner, None), |(a, z)| (a, Some(z)));
    let address: Ipv6Addr = address.parse().map_err(|_| bad)?;
    match zone {
        None => {}
        Some(zone) if zone.is_empty() || zone.contains('%') => return Err(bad),
        Some(_) => return Err("the address names a network interface"),
    }
    Ok(address
        .to_ipv4_mapped()
        .map_or_else(|| address.to_string(), |v4| v4.to_string()))
}

/// WHATWG URL, 3.5 (IPv4 parser): one to four numbers, decimal or hexadecimal, the last fills what is left.
///
/// # Errors
/// One line, for what is none, or what clients read in two ways.
pub fn ipv4(host: &str) -> Result<String, &'static str> {
    let bad = "the address is no IPv4 address";
    let labels: Vec<&str> = host.split('.').collect();
    if labels.len() > 4 || !labels.iter().all(|label| is_number(label)) {
        return Err(bad);
    }
    let is_octal =
        |label: &&str| label.len() > 1 && label.starts_with('0') && !label.starts_with("0x");
    if labels.iter().any(is_octal) {
        return Err("the address begins a number with 0, which clients read in two ways");
    }
    let mut value: u64 = 0;
    for (place, label) in labels.iter().enumerate() {
        let is_last = place + 1 == labels.len();
        let bits = if is_last { 8 * (5 - labels.len()) } else { 8 };
        let number = number(label)
            .filter(|number| number >> bits == 0)
            .ok_or(bad)?;
        value = value << bits | number;
    }
    let value = u32::try_from(value).map_err(|_| bad)?;
    Ok(Ipv4Addr::from(value).to_string())
}

fn number(label: &str) -> Option<u64> {
    match label
        .strip_prefix("0x")
        .map(|hex| hex.trim_start_matches('0'))
    {
        Some("") => Some(0),
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => label.parse().ok(),
    }
}

/// False for this machine, private networks and names that are no public ones; for a host in its normal form.
#[must_use]
pub fn is_public(host: &str) -> bool {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        let bits = u128::from(address);
        let held = |(net, length): &([u16; 8], u32)| {
            (bits ^ u128::from(Ipv6Addr::from(*net))) >> (128 - length) == 0
        };
        return carried(address).is_none_or(is_public_v4) && !NO_PUBLIC_V6.iter().any(held);
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return is_public_v4(address);
    }
    host.contains('.') && !LOCAL.iter().any(|end| is_below(host, end))
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    let held = |(net, length): &([u8; 4], u32)| {
        (bits ^ u32::from(Ipv4Addr::from(*net))) >> (32 - length) == 0
    };
    !NO_PUBLIC_V4.iter().any(held)
}

/// The IPv4 address that an IPv6 address carries for gateways and tunnels: 6to4, compatible, mapped, translated, NAT64.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let ([0x2002, high, low, ..]
    | [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
    | [0, 0, 0, 0, 0xffff, 0, high, low]
    | [0x64, 0xff9b, 0, 0, 0, 0, high, low]) = address.segments()
    else {
        return None;
    };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}

fn is_below(host: &str, end: &str) -> bool {
    host.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn what_is_not_reachable_from_outside_is_not_public() {
        for host in [
            "localhost",
            "db.internal",
            "10.1.2.3",
            "::1",
            "fe80::1",
            "nodots",
            "100.64.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "::a00:1",
            "::ffff:0:a00:1",
            "fec0::1",
            "ff0e::1",
            "239.1.1.1",
            "1.0.0.10.in-addr.arpa",
            "db.home",
            "localhost.localdomain",
            "x.private",
        ] {
            assert!(!is_public(host), "{host}");
        }
        for host in [
            "a.example",
            "8.8.8.8",
            "2600::1",
            "notlocalhost.example",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "home.example",
        ] {
            assert!(is_public(host), "{host}");
        }
    }
}
