//! Signatures that a report has to have, many of them at once: tokens under few RSA keys, and a key a report.
//!
//! Ed25519 is judged as libsodium judges it, which is what the Python reference asks: encodings of keys and scalars are
//! canonical, no point is of small order, and the equation is the one without the cofactor.

use std::collections::BTreeMap;

use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::Scalar;
use rsa::PublicKey;
use sha2::{Digest as _, Sha512};

use crate::Refused;

/// How a signature is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheme {
    /// RSABSSA-SHA384-PSS-Randomized, of a message that was prepared.
    BlindRsa,
    /// Ed25519.
    Ed25519,
}

/// That a message is signed so under a key: to be checked.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// How it is made.
    pub scheme: Scheme,
    /// A `SubjectPublicKeyInfo`, or 32 bytes.
    pub key: &'a [u8],
    /// What was signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

/// The RSA keys of some signatures, each read once. Shared by threads.
pub struct Keys<'a> {
    found: BTreeMap<&'a [u8], Option<PublicKey>>,
}

impl Scheme {
    /// The scheme that `interlock.base.claims` spells so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "rsabssa" => Some(Self::BlindRsa),
            "ed25519" => Some(Self::Ed25519),
            _ => None,
        }
    }
}

impl<'a> Keys<'a> {
    /// The keys that these signatures name.
    pub fn of<'s>(claims: impl IntoIterator<Item = &'s Claim<'a>>) -> Self
    where
        'a: 's,
    {
        let mut found = BTreeMap::new();
        for Claim { scheme, key, .. } in claims {
            if *scheme == Scheme::BlindRsa {
                found
                    .entry(*key)
                    .or_insert_with(|| crate::public_key(key).ok());
            }
        }
        Self { found }
    }

    /// Whether a signature holds; under a key that cannot be used, none does.
    ///
    /// # Errors
    /// `Key`, `Signature`.
    pub fn verify(&self, claim: &Claim<'_>) -> Result<(), Refused> {
        let Claim {
            key,
            message,
            signature,
            ..
        } = *claim;
        match claim.scheme {
            Scheme::Ed25519 => ed25519(key, message, signature).ok_or(Refused::Signature),
            Scheme::BlindRsa => match self.found.get(key) {
                Some(Some(key)) => crate::verified(key, message, signature),
                _ => Err(Refused::Key),
            },
        }
    }
}

/// Something, where an Ed25519 signature holds (RFC 8032, section 5.1.7, without the cofactor).
fn ed25519(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let (r, s) = signature.split_first_chunk::<32>()?;
    let s = Scalar::from_canonical_bytes(s.try_into().ok()?).into_option()?;
    let public = CompressedEdwardsY::from_slice(key).ok()?.decompress()?;
    if public.is_small_order() || public.compress().as_bytes() != key {
        return None;
    }
    let digest = Sha512::new()
        .chain_update(r)
        .chain_update(key)
        .chain_update(message)
        .finalize();
    let k = Scalar::from_bytes_mod_order_wide(&digest.into());
    let first = EdwardsPoint::vartime_double_scalar_mul_basepoint(&k, &-public, &s);
    (first.compress().as_bytes() == r && !first.is_small_order()).then_some(())
}
