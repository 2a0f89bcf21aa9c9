//! EMSA-PSS-ENCODE of RFC 8017, section 9.1.1, with SHA-384, MGF1 of the same and a salt as long as the hash.

use sha2::{Digest as _, Sha384};

/// Length of the salt, in bytes.
pub const SALT_SIZE: usize = 48;
const HASH_SIZE: usize = 48;

/// A message encoded for a modulus of `bits + 1` bits; none where the salt has another length or the room is too small.
pub fn encoded(message: &[u8], salt: &[u8], bits: u32) -> Option<Vec<u8>> {
    let length = usize::try_from(bits.div_ceil(8)).ok()?;
    let zeros = length.checked_sub(HASH_SIZE + SALT_SIZE + 2)?;
    if salt.len() != SALT_SIZE {
        return None;
    }
    let digest = Sha384::digest(message);
    let hash = Sha384::new()
        .chain_update([0; 8])
        .chain_update(digest)
        .chain_update(salt)
        .finalize();
    let mut block = vec![0; zeros];
    block.push(1);
    block.extend(salt);
    let mut out: Vec<u8> = block
        .iter()
        .zip(mask(&hash, block.len()))
        .map(|(a, b)| a ^ b)
        .collect();
    let unused = u32::try_from(length)
        .ok()?
        .checked_mul(8)?
        .checked_sub(bits)?;
    let first = out.first_mut()?;
    *first &= 0xff_u8.checked_shr(unused)?;
    out.extend(hash);
    out.push(0xbc);
    Some(out)
}

/// MGF1 (RFC 8017, appendix B.2.1).
fn mask(seed: &[u8], length: usize) -> Vec<u8> {
    let blocks = (0_u32..).map(|counter| {
        Sha384::new()
            .chain_update(seed)
            .chain_update(counter.to_be_bytes())
            .finalize()
    });
    blocks.flatten().take(length).collect()
}
