//! The demo model of the playground, which answers if no model is configured.

#[cfg(feature = "playground")]
pub use with_playground::Demo;
#[cfg(not(feature = "playground"))]
pub use without_playground::Demo;

/// The reason why there is no demo model: a sentence, and the exit code.
pub struct NoDemo(pub String, pub u8);

#[cfg(feature = "playground")]
mod with_playground {
    use std::sync::Arc;
    use std::time::Duration;

    use super::NoDemo;
    use crate::app::exit;
    use playground::demo_model::{DemoModel, MODEL, ModelFault};
    use settings::Settings;

    /// A running demo model.
    pub struct Demo(DemoModel);

    impl Demo {
        /// Starts it. Each answer is delayed by about `thinking`.
        pub async fn start(thinking: Duration) -> Result<Self, NoDemo> {
            let started = DemoModel::start(thinking).await;
            Self::started(started)
        }

        /// Starts it with faults to inject.
        pub async fn start_with(
            thinking: Duration,
            fault: Arc<dyn Fn() -> ModelFault + Send + Sync>,
        ) -> Result<Self, NoDemo> {
            Self::started(DemoModel::start_with(thinking, fault).await)
        }

        fn started(started: std::io::Result<DemoModel>) -> Result<Self, NoDemo> {
            started.map(Self).map_err(|error| NoDemo(format!("the demo model cannot start: {error}"), exit::GAVE_UP))
        }

        /// Returns its address.
        pub fn url(&self) -> String {
            self.0.base_url()
        }

        /// Returns a function that makes settings use it.
        pub fn configure(&self) -> impl Fn(&mut Settings) + Send + Sync + use<> {
            let url = self.url();
            move |settings| {
                settings.llm.url.clone_from(&url);
                settings.llm.model = Some(MODEL.to_owned());
            }
        }

        /// Stops it.
        pub async fn stop(self) {
            self.0.stop().await;
        }
    }
}

#[cfg(not(feature = "playground"))]
mod without_playground {
    use std::time::Duration;

    use super::NoDemo;
    use crate::app::exit;
    use settings::Settings;

    /// This build has no demo model.
    pub enum Demo {}

    impl Demo {
        /// Fails with the reason.
        pub async fn start(_thinking: Duration) -> Result<Self, NoDemo> {
            let why =
                "no model is configured and the demo model is not in this build: set LITELLM_API_URL and LITELLM_MODEL";
            std::future::ready(Err(NoDemo(why.to_owned(), exit::USAGE))).await
        }

        /// Never called.
        pub fn configure(&self) -> fn(&mut Settings) {
            match *self {}
        }

        /// Never called.
        pub async fn stop(self) {
            std::future::ready(()).await;
            match self {}
        }
    }
}
