//! RSABSSA-SHA384-PSS-Randomized of RFC 9474 over the crate `rsa`, bytes in and bytes out; `claims` checks what reports
//! show, many signatures at once.
//!
//! Public keys are `SubjectPublicKeyInfo`, private keys PKCS #8, both DER, of 2048 to 4096 bits with the exponent
//! 65537. A message comes prepared: with its 32-byte prefix in front. What is random of blinding is an argument, so
//! that the same arguments give the same bytes; signing is blinded against timing (base, exponents and moduli) and
//! checked against faults, with randomness of its own.

mod claims;
mod pss;

use getrandom::SysRng;
use ring::signature::{RsaPublicKeyComponents, RSA_PSS_2048_8192_SHA384};
use rsa::hazmat::{rsa_decrypt_and_check, rsa_encrypt};
use rsa::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};
use rsa::traits::PublicKeyParts as _;
use rsa::{BoxedUint, PrivateKey, PublicKey};

pub use claims::{Claim, Keys, Scheme};
pub use pss::SALT_SIZE;

const EXPONENT: &[u8] = &[1, 0, 1];

const BITS: core::ops::RangeInclusive<u32> = 2048..=4096;

/// What cannot be done with these bytes, and nothing of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The key is damaged, too small, too large, or has an exponent that is not used here.
    Key,
    /// An input of the wrong length or out of range.
    Input,
    /// A signature that does not verify.
    Signature,
}

impl Refused {
    /// One line for an error.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Key => "RSA key cannot be used",
            Self::Input => "input is of the wrong length or out of range",
            Self::Signature => "signature does not verify",
        }
    }
}

/// Blind a prepared message with a salt and a blinding factor `r` (big-endian, as long as the modulus, below it).
///
/// Gives the blinded message and the inverse of `r` (RFC 9474, section 4.2).
///
/// # Errors
/// `Key`; `Input`, also for an `r` that has no inverse.
pub fn blind(
    public: &[u8],
    prepared: &[u8],
    salt: &[u8],
    r: &[u8],
) -> Result<(Vec<u8>, Vec<u8>), Refused> {
    let key = public_key(public)?;
    let modulus = key.n();
    let factor = number(&key, r)?;
    let encoded = pss::encoded(prepared, salt, modulus.bit_width() - 1).ok_or(Refused::Input)?;
    let message =
        BoxedUint::from_be_slice(&encoded, modulus.bits_precision()).map_err(|_| Refused::Input)?;
    let inverse: Option<BoxedUint> = factor.invert_mod(modulus).into();
    let shared: Option<BoxedUint> = message.invert_mod(modulus).into();
    if shared.is_none() {
        return Err(Refused::Input); // it shares a factor with the modulus: step 4
    }
    let raised = rsa_encrypt(&key, &factor).map_err(|_| Refused::Input)?;
    let blinded = message.mul_mod(&raised, modulus);
    Ok((
        bytes(&key, &blinded),
        bytes(&key, &inverse.ok_or(Refused::Input)?),
    ))
}

/// Sign a blinded message (section 4.3).
///
/// # Errors
/// `Key`; `Input`, for a message of another length or not below the modulus.
pub fn blind_sign(private: &[u8], blinded: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut key = PrivateKey::from_pkcs8_der(private).map_err(|_| Refused::Key)?;
    key.validate()
        .and_then(|()| key.precompute())
        .map_err(|_| Refused::Key)?;
    let public = key.to_public_key();
    demand_usable(&public)?;
    let message = number(&public, blinded)?;
    let signed =
        rsa_decrypt_and_check(&key, Some(&mut SysRng), &message).map_err(|_| Refused::Input)?;
    Ok(bytes(&public, &signed))
}

/// Take the blinding off and verify (section 4.4).
///
/// # Errors
/// `Key`; `Input`, for lengths that are not the modulus's; `Signature`.
pub fn finalize(
    public: &[u8],
    prepared: &[u8],
    blind_signature: &[u8],
    inverse: &[u8],
) -> Result<Vec<u8>, Refused> {
    let key = public_key(public)?;
    let (blinded, inverse) = (number(&key, blind_signature)?, number(&key, inverse)?);
    let signature = bytes(&key, &blinded.mul_mod(&inverse, key.n()));
    verified(&key, prepared, &signature)?;
    Ok(signature)
}

/// Verify a signature of a prepared message (section 4.5).
///
/// # Errors
/// `Key`, `Signature`.
pub fn verify(public: &[u8], prepared: &[u8], signature: &[u8]) -> Result<(), Refused> {
    verified(&public_key(public)?, prepared, signature)
}

/// By `ring`, several times as fast as the crate `rsa`, and never given a secret here.
fn verified(key: &PublicKey, prepared: &[u8], signature: &[u8]) -> Result<(), Refused> {
    let n = &*key.n().to_be_bytes_trimmed_vartime();
    RsaPublicKeyComponents { n, e: EXPONENT }
        .verify(&RSA_PSS_2048_8192_SHA384, prepared, signature)
        .map_err(|_| Refused::Signature)
}

/// A key that is used here, in its one spelling.
fn public_key(der: &[u8]) -> Result<PublicKey, Refused> {
    let key = PublicKey::from_public_key_der(der).map_err(|_| Refused::Key)?;
    demand_usable(&key)?;
    let spelled = key.to_public_key_der().map_err(|_| Refused::Key)?;
    if spelled.as_bytes() == der {
        Ok(key)
    } else {
        Err(Refused::Key)
    }
}

fn demand_usable(key: &PublicKey) -> Result<(), Refused> {
    let usable = BITS.contains(&key.n().bit_width()) && key.e() == &BoxedUint::from(65537_u32);
    if usable {
        Ok(())
    } else {
        Err(Refused::Key)
    }
}

/// A number below the modulus, and not 0, from bytes as long as the modulus (OS2IP).
fn number(key: &PublicKey, data: &[u8]) -> Result<BoxedUint, Refused> {
    if data.len() != key.size() {
        return Err(Refused::Input);
    }
    let found =
        BoxedUint::from_be_slice(data, key.n().bits_precision()).map_err(|_| Refused::Input)?;
    let in_range = !bool::from(found.is_zero()) && found < *key.n().as_ref();
    if in_range {
        Ok(found)
    } else {
        Err(Refused::Input)
    }
}

/// A number below the modulus as bytes as long as the modulus (I2OSP).
fn bytes(key: &PublicKey, value: &BoxedUint) -> Vec<u8> {
    let digits = value.to_be_bytes();
    let mut out = vec![0; key.size().saturating_sub(digits.len())];
    out.extend(digits.iter().skip(digits.len().saturating_sub(key.size())));
    out
}

#[cfg(test)]
mod tests;
