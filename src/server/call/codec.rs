//! Decodes messages within memory limits.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;
use rollplan_service::METHODS;
use rollplan_service::memory;
use rollplan_wire as wire;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::protocol::cancellation::Current;
use crate::protocol::errors::to_tonic;

/// A type that is created from the bytes of a request before the call is processed.
pub trait Decodable: Send + Sized + 'static {
    /// The type of the encoded message.
    type Message: Name;

    /// Creates the value from a message whose memory has been checked.
    ///
    /// # Errors
    ///
    /// [`wire::Error::Undecodable`], and [`wire::Error::Interrupted`].
    fn decode(encoded: Bytes, interrupt: &dyn Interrupt) -> Result<Self, wire::Error>;
}

impl<M: Message + Name + Default + 'static> Decodable for M {
    type Message = M;

    fn decode(encoded: Bytes, interrupt: &dyn Interrupt) -> Result<Self, wire::Error> {
        rollplan_service::decode(encoded, interrupt)
    }
}

/// The protobuf codec, with a limit for the memory of decoded messages.
#[derive(Debug)]
pub struct Codec<Encode, Decode>(PhantomData<(Encode, Decode)>);

/// The decoder of [`Codec`].
#[derive(Debug)]
pub struct SizeLimitedDecoder<M>(PhantomData<M>);

impl<Encode, Decode> Default for Codec<Encode, Decode> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Encode, Decode> tonic::codec::Codec for Codec<Encode, Decode>
where
    Encode: Message + Send + 'static,
    Decode: Decodable,
{
    type Encode = Encode;
    type Decode = Decode;
    type Encoder = ProstEncoder<Encode>;
    type Decoder = SizeLimitedDecoder<Decode>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<Encode, ()>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        SizeLimitedDecoder(PhantomData)
    }
}

impl<M: Decodable> Decoder for SizeLimitedDecoder<M> {
    type Item = M;
    type Error = Status;

    fn decode(&mut self, encoded: &mut DecodeBuf<'_>) -> Result<Option<M>, Status> {
        // The bytes are taken as a whole, without a copy: reading fields directly from tonic's buffer takes far longer.
        let encoded = encoded.copy_to_bytes(encoded.remaining());
        let current = Current::get();
        // In the service, the memory was reserved when the request was received.
        let name = M::Message::full_name();
        let method = METHODS.iter().find(|method| method.request == name);
        let checked = match method.filter(|_| !current.is_call()) {
            Some(method) => memory(method, &encoded, &current).map(|_| ()),
            None => Ok(()),
        };
        checked
            .and_then(|()| M::decode(encoded, &current))
            .map(Some)
            .map_err(|error| to_tonic((&error).into()))
    }
}
