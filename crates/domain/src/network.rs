//! Classification of network addresses: public internet or not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// True if an address belongs to the public internet, according to IANA's registries of special-purpose addresses.
/// IPv6 addresses that embed an IPv4 address (mapped, 6to4, Teredo) are not public, except NAT64 (RFC 6052), through
/// which IPv6-only networks reach IPv4: there the embedded address decides.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Addresses that look public but belong to the machine's cloud platform; services there trust any caller.
const PLATFORM: [Ipv4Addr; 1] = [Ipv4Addr::new(168, 63, 129, 16)];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        [0 | 10 | 127, ..]
        | [169, 254, ..]
        | [192, 168, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => true,
        [100, second, ..] => second & 0b1100_0000 == 0b0100_0000,
        [172, second, ..] => second & 0b1111_0000 == 0b0001_0000,
        // Multicast, reserved, broadcast.
        [first, ..] => first >= 224,
    };
    !special && !PLATFORM.contains(&address)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    if let [0x64, 0xff9b, 0, 0, 0, 0, high, low] = segments {
        return is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    }
    // Only this part of the IPv6 space is allocated as global unicast.
    let global = segments[0] & 0xe000 == 0x2000;
    let special = match segments {
        // Protocol assignments, among them Teredo; documentation; 6to4.
        [0x2001, second, ..] => second < 0x200 || second == 0xdb8,
        [0x2002, ..] => true,
        [0x3fff, second, ..] => second < 0x1000,
        _ => false,
    };
    // ISATAP embeds an IPv4 address in its last part.
    let isatap = segments[4] & 0xfdff == 0 && segments[5] == 0x5efe;
    global && !special && !isatap
}
