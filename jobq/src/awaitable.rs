//! Awaitable builders.

/// Implements `IntoFuture` for a builder, with a named future of one of its methods.
macro_rules! awaitable {
    ($builder:ident $(<$life:lifetime>)?, $future:ident, $output:ty, $method:ident, $what:literal) => {
        #[doc = $what]
        #[must_use = "futures do nothing unless awaited"]
        pub struct $future$(<$life>)?(
            std::pin::Pin<Box<dyn Future<Output = $output> + Send $(+ $life)?>>,
        );

        impl $(<$life>)? Future for $future$(<$life>)? {
            type Output = $output;

            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<$output> {
                self.0.as_mut().poll(cx)
            }
        }

        impl $(<$life>)? std::fmt::Debug for $future$(<$life>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($future)).finish_non_exhaustive()
            }
        }

        impl $(<$life>)? IntoFuture for $builder$(<$life>)? {
            type Output = $output;
            type IntoFuture = $future$(<$life>)?;

            fn into_future(self) -> $future$(<$life>)? {
                $future(Box::pin(self.$method()))
            }
        }
    };
}

pub(crate) use awaitable;
