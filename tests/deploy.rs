//! Checks the files in `deploy` by reading them: names, users, ports, secrets and times must match the program.

#[path = "deploy/documents.rs"]
mod documents;

#[path = "deploy/scripts.rs"]
mod scripts;

#[path = "deploy/watching.rs"]
mod watching;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use settings::defaults::entries;
use settings::env::{VARIABLES, general_name};
use staffai::app::AFTER_DRAIN;

const COMPOSE: [&str; 2] = ["deploy/compose.yaml", "deploy/compose.external.yaml"];
const KUBERNETES: [&str; 6] = [
    "deploy/kubernetes/configmap.yaml",
    "deploy/kubernetes/deployment.yaml",
    "deploy/kubernetes/networkpolicy.yaml",
    "deploy/kubernetes/pvc.yaml",
    "deploy/kubernetes/service.yaml",
    "deploy/kubernetes/servicemonitor.yaml",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Parses all documents of a YAML file.
fn yaml(path: &str) -> Vec<Value> {
    let text = read(path);
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.map(|document| Value::deserialize(document).unwrap_or_else(|error| panic!("{path}: {error}"))).collect()
}

fn compose(path: &str) -> Value {
    yaml(path).remove(0)
}

fn deployment() -> Value {
    yaml("deploy/kubernetes/deployment.yaml").remove(0)
}

/// Returns the only container of the deployment.
fn container() -> Value {
    deployment()["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Returns every variable that the program reads.
fn known() -> BTreeSet<String> {
    let general = entries().into_iter().map(|entry| general_name(&entry.key));
    let table = VARIABLES.iter().map(|variable| variable.name.to_owned());
    let names: BTreeSet<String> = general.chain(table).collect();
    let files: Vec<String> = names.iter().map(|name| format!("{name}_FILE")).collect();
    names.into_iter().chain(files).collect()
}

fn is_secret(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.secret && variable.name == name)
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// Returns the instructions of the image's last stage, with continued lines joined.
fn image() -> Vec<String> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    let mut stage = Vec::new();
    for line in lines {
        if line.starts_with("FROM ") {
            stage.clear();
        }
        stage.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    stage
}

fn instruction(name: &str) -> String {
    let prefix = format!("{name} ");
    let found: Vec<String> = image().iter().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect();
    assert_eq!(found.len(), 1, "{name} must be there once: {found:?}");
    found[0].clone()
}

fn image_environment() -> Vec<(String, String)> {
    let pairs = instruction("ENV");
    pairs.split(' ').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn unit() -> Vec<(String, String)> {
    let text = read("deploy/staffai.service");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn unit_has(key: &str, value: &str) {
    assert!(unit().iter().any(|(k, v)| k == key && v == value), "{key}={value} is missing");
}

/// Returns the names in a unit's `Environment=` lines.
fn unit_environment() -> Vec<String> {
    let lines = unit().into_iter().filter(|(key, _)| key == "Environment");
    let pairs = lines.flat_map(|(_, pairs)| pairs.split(' ').map(str::to_owned).collect::<Vec<_>>());
    pairs.filter_map(|pair| pair.split_once('=').map(|(name, _)| name.to_owned())).collect()
}

fn seconds(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap()
}

/// The default stop timeout of Kubernetes.
const RUNTIMES_WAIT: Duration = Duration::from_secs(30);

/// Returns the longest default shutdown: the drain, then the tree and the store.
fn end() -> Duration {
    let entry = entries().into_iter().find(|entry| entry.key == "drain.timeout").unwrap();
    Duration::from_secs(entry.toml.parse().unwrap()) + AFTER_DRAIN
}

#[test]
fn every_name_that_is_set_is_one_that_the_program_reads() {
    let mut set: Vec<(&str, String)> = Vec::new();
    // The program does not read the system's own variable.
    let ours = image_environment().into_iter().filter(|(name, _)| name != "PATH");
    set.extend(ours.map(|(name, _)| ("deploy/Dockerfile", name)));
    for path in COMPOSE {
        let names = keys(&compose(path)["services"]["staffai"]["environment"]);
        set.extend(names.into_iter().map(|name| (path, name)));
    }
    let names = container()["env"].as_array().unwrap().clone();
    set.extend(names.iter().map(|row| ("deployment.yaml", row["name"].as_str().unwrap().to_owned())));
    let settings = yaml(KUBERNETES[0]).into_iter().find(|map| map["metadata"]["name"] == "staffai").unwrap();
    set.extend(keys(&settings["data"]).into_iter().map(|name| ("configmap.yaml", name)));
    set.extend(unit_environment().into_iter().map(|name| ("staffai.service", name)));
    let known = known();
    let unknown: Vec<_> = set.iter().filter(|(_, name)| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(set.len() > 15, "too few names were found: {set:?}");
}

#[test]
fn the_image_runs_without_privileges_and_asks_itself_how_it_is() {
    let user = instruction("USER");
    let id: u32 = user.split(':').next().unwrap().parse().expect("a number, so that Kubernetes can check it");
    assert_ne!(id, 0);
    let copied = format!("COPY --from=builder --chown={id}:{id} /out/data /data");
    assert!(image().contains(&copied), "a new volume takes its owner from this folder");
    assert!(read("deploy/root.sh").contains(&format!("USER_ID={id}")), "the same user owns it there");
    let health = instruction("HEALTHCHECK");
    assert!(health.ends_with(r#"CMD ["staffai", "health"]"#), "{health}");
    assert_eq!(instruction("ENTRYPOINT"), r#"["staffai"]"#);
    assert_eq!(instruction("VOLUME"), "/data");
    let environment = image_environment();
    let value = |name: &str| environment.iter().find(|(key, _)| key == name).unwrap().1.clone();
    assert_eq!(value("STAFFAI_DATA_DIR"), "/data");
    assert_eq!(value("STAFFAI_HTTP_ADDR").rsplit(':').next(), Some("8420"), "the port that is published");
    assert!(read("deploy/root.sh").contains("ca-certificates.crt"), "discord is reached over TLS");
}

#[test]
fn the_image_of_the_guide_for_tool_programs_is_complete() {
    let page = read("deploy/README.md");
    let file = page.split_once("```dockerfile\n").unwrap().1.split_once("```").unwrap().0.replace("\\\n", " ");
    let lines: Vec<String> = file
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect();
    let ours = image();
    for name in ["WORKDIR", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"] {
        let line = ours.iter().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        assert!(lines.contains(line), "{line}");
    }
    for (name, value) in image_environment().into_iter().filter(|(name, _)| name != "PATH") {
        assert!(file.contains(&format!("{name}={value}")), "{name}");
    }
    for path in ["/usr/local/bin/staffai", "/etc/ssl/certs/ca-certificates.crt", "/data"] {
        assert!(lines.iter().any(|line| line.starts_with("COPY --from=staffai") && line.ends_with(path)), "{path}");
    }
}

#[test]
fn nothing_private_is_sent_to_the_builder() {
    let ignored = read(".dockerignore");
    let ignored: BTreeSet<&str> = ignored.lines().collect();
    for path in [".env", "mcp.json", "data", "target", ".git", "deploy/secrets"] {
        assert!(ignored.contains(path), "{path}");
    }
}

#[test]
fn ports_are_published_on_loopback_only() {
    let mut found = 0;
    for path in COMPOSE {
        for (name, service) in compose(path)["services"].as_object().unwrap() {
            for port in service["ports"].as_array().into_iter().flatten() {
                found += 1;
                let port = port.as_str().expect("the short form");
                assert!(port.starts_with("127.0.0.1:"), "{path}: {name} publishes {port}");
            }
        }
    }
    assert!(found > 0);
    let service = yaml("deploy/kubernetes/service.yaml").remove(0);
    assert_eq!(service["spec"]["type"], "ClusterIP");
}

#[test]
fn no_secret_is_written_down() {
    for path in COMPOSE {
        for (name, service) in compose(path)["services"].as_object().unwrap() {
            for (key, value) in service["environment"].as_object().into_iter().flatten() {
                let value = value.as_str().unwrap_or_default();
                let referred = value.starts_with("${");
                let secret = is_secret(key) || key.ends_with("_KEY") || key.ends_with("PASSWORD");
                assert!(!secret || referred, "{path}: {name} has {key} inline");
            }
        }
    }
    for path in KUBERNETES {
        for document in yaml(path) {
            assert_ne!(document["kind"], "Secret", "{path}");
            let inline: Vec<String> = keys(&document["data"]).into_iter().filter(|key| is_secret(key)).collect();
            assert!(inline.is_empty(), "{path}: {inline:?}");
        }
    }
    assert!(container()["env"].as_array().unwrap().iter().all(|row| !is_secret(row["name"].as_str().unwrap())));
    let inline: Vec<String> = unit_environment().into_iter().filter(|name| is_secret(name)).collect();
    assert!(inline.is_empty(), "{inline:?}");
    let ignored = read(".gitignore");
    assert!(ignored.lines().any(|line| line.trim_matches('/') == "deploy/secrets"), "the folder of secret files");
}

#[test]
fn the_secrets_of_the_predecessor_are_found_where_they_are_mounted() {
    let file = compose("deploy/compose.external.yaml");
    for name in ["discord_bot_token", "litellm_api_key"] {
        assert!(file["secrets"].get(name).is_some(), "{name}");
        let mounted = file["services"]["staffai"]["secrets"].as_array().unwrap();
        assert!(mounted.contains(&name.into()), "{name}");
        assert!(is_secret(&name.to_uppercase()), "{name}");
    }
    for name in ["bot", "dbnet"] {
        assert_eq!(file["networks"][name]["external"], true, "{name}");
    }
}

#[test]
fn there_is_time_to_end_in_order() {
    assert!(end() < RUNTIMES_WAIT, "{:?}", end());
    for path in COMPOSE {
        let grace = compose(path)["services"]["staffai"]["stop_grace_period"].as_str().unwrap().to_owned();
        assert!(seconds(&grace) > end(), "{path}");
    }
    let grace = deployment()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) > end());
    let stop = unit().into_iter().find(|(key, _)| key == "TimeoutStopSec").unwrap().1;
    assert!(seconds(&stop) > end());
}

#[test]
fn containers_are_locked_down() {
    for path in COMPOSE {
        let service = &compose(path)["services"]["staffai"];
        assert_eq!(service["read_only"], true, "{path}");
        assert_eq!(service["cap_drop"][0], "ALL", "{path}");
        assert_eq!(service["security_opt"][0], "no-new-privileges:true", "{path}");
        let data = service["volumes"].as_array().unwrap().contains(&"data:/data".into());
        assert!(data, "{path}");
    }
    let container = container();
    let context = &container["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"]["drop"][0], "ALL");
    let pod = &deployment()["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    for (key, value) in [("DynamicUser", "yes"), ("NoNewPrivileges", "yes"), ("ProtectSystem", "strict")] {
        unit_has(key, value);
    }
}

#[test]
fn the_deployment_is_one_pod_that_is_probed() {
    let deployment = deployment();
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    let container = container();
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let kustomization = yaml("deploy/kubernetes/kustomization.yaml").remove(0);
    for file in kustomization["resources"].as_array().unwrap() {
        let path = format!("deploy/kubernetes/{}", file.as_str().unwrap());
        assert!(KUBERNETES.contains(&path.as_str()), "{path}");
    }
}

/// The changes for two pods on one Redis.
const STANDBY: &str = "deploy/kubernetes-standby";

#[test]
fn two_pods_pass_requests_on_behind_one_service() {
    let overlay = |file: &str| yaml(&format!("{STANDBY}/{file}.yaml")).remove(0);
    let kustomization = overlay("kustomization");
    assert_eq!(
        kustomization["resources"],
        serde_json::json!(["../kubernetes", "service.yaml", "poddisruptionbudget.yaml"])
    );
    assert_eq!(kustomization["patches"][0]["path"], "deployment.yaml");
    assert!(kustomization["patches"][1]["patch"].as_str().unwrap().contains("{name: staffai-data}"), "no shared disk");
    let (change, base) = (overlay("deployment"), deployment());
    assert_eq!(change["metadata"]["name"], base["metadata"]["name"]);
    let spec = &change["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["rollingUpdate"]["maxUnavailable"]), (&2.into(), &0.into()));
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["name"], self::container()["name"]);
    let variables = container["env"].as_array().unwrap();
    let of = |name: &str| variables.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(of("STAFFAI_HTTP_ADDR")["value"], "0.0.0.0:8420");
    assert_eq!(of("STAFFAI_CLUSTER__ADDRESS")["value"], "$(POD_IP):8420");
    assert_eq!(of("POD_IP")["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
    let known = known();
    assert!(variables.iter().all(|row| row["name"] == "POD_IP" || known.contains(row["name"].as_str().unwrap())));
    let port = &container["ports"][0];
    assert_eq!((&port["name"], &port["containerPort"]), (&"http".into(), &8420.into()));
    let volume = &pod["volumes"][0];
    assert!(volume["name"] == "data" && volume["persistentVolumeClaim"].is_null() && volume["emptyDir"].is_object());
    let (service, budget) = (overlay("service"), overlay("poddisruptionbudget"));
    assert_eq!(
        (&service["spec"]["ports"][0]["targetPort"], &service["spec"]["type"]),
        (&port["name"], &"ClusterIP".into())
    );
    let pods = &base["spec"]["selector"]["matchLabels"];
    assert_eq!((&service["spec"]["selector"], &budget["spec"]["selector"]["matchLabels"]), (pods, pods));
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let grace = base["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace - pause) > end());
}

#[test]
fn the_overlay_for_ranges_has_a_pod_for_each_and_a_spare_one() {
    let folder = "deploy/kubernetes-ranges";
    let overlay = yaml(&format!("{folder}/kustomization.yaml")).remove(0);
    let patch = overlay["patches"][0]["patch"].as_str().unwrap();
    let steps: Vec<Value> = serde_yaml_ng::from_str(patch).unwrap();
    let value = |path: &str| steps.iter().find(|step| step["path"] == path).map(|step| step["value"].clone()).unwrap();
    let variable = value("/spec/template/spec/containers/0/env/-");
    assert_eq!(variable["name"], general_name("cluster.ranges"));
    let ranges: u64 = variable["value"].as_str().unwrap().parse().unwrap();
    assert_eq!(value("/spec/replicas").as_u64(), Some(ranges + 1));
    assert_eq!(value("/spec/strategy")["rollingUpdate"]["maxUnavailable"], 0);
    let pod = &deployment()["spec"]["template"]["spec"];
    assert_eq!((&pod["volumes"][0]["name"], &pod["containers"][0]["name"]), (&"data".into(), &"staffai".into()));
    assert!(!value("/spec/template/spec/volumes/0")["emptyDir"].is_null(), "pods share no volume");
    let budget = yaml(&format!("{folder}/poddisruptionbudget.yaml")).remove(0);
    assert_eq!(budget["spec"]["selector"], deployment()["spec"]["selector"]);
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
}

#[test]
fn the_prompt_in_the_cluster_is_the_one_that_is_compiled_in() {
    let prompts = yaml(KUBERNETES[0]).into_iter().find(|map| map["metadata"]["name"] == "staffai-prompts").unwrap();
    let prompt = prompts["data"]["personality_prompt.txt"].as_str().unwrap();
    assert_eq!(prompt.trim(), read("prompts/personality_prompt.txt").trim());
}

#[test]
fn a_service_manager_does_not_repeat_what_cannot_work() {
    unit_has("RestartPreventExitStatus", "64 69");
    assert_eq!((staffai::app::exit::USAGE, staffai::app::exit::REFUSED), (64, 69));
}

/// Returns the variables of a service in a compose file, and its variable files.
fn told(service: &Value) -> (Vec<String>, Vec<String>) {
    let files = match &service["env_file"] {
        Value::String(file) => vec![file.clone()],
        files => files.as_array().into_iter().flatten().filter_map(|file| file.as_str().map(str::to_owned)).collect(),
    };
    (keys(&service["environment"]), files)
}

#[test]
fn images_are_named_by_their_exact_release() {
    let mut found = Vec::new();
    for line in read("deploy/Dockerfile").lines().filter_map(|line| line.strip_prefix("FROM ")) {
        found.push(line.split(' ').next().unwrap().to_owned());
    }
    // An empty base image.
    found.retain(|image| image != "scratch");
    for path in COMPOSE {
        let services = compose(path)["services"].as_object().unwrap().clone();
        // Images that are built here have no release elsewhere.
        let others = services.values().filter(|service| service["build"].is_null());
        found.extend(others.map(|service| service["image"].as_str().unwrap().to_owned()));
    }
    found.push(container()["image"].as_str().unwrap().to_owned());
    for image in &found {
        let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
        let numbers =
            tag.trim_start_matches('v').split(['.', '-']).take_while(|part| part.parse::<u32>().is_ok()).count();
        assert!(numbers >= 2, "{image} may become another image tomorrow");
    }
    assert!(found.len() >= 4, "{found:?}");
}

#[test]
fn secrets_go_only_to_whom_they_belong() {
    let file = compose("deploy/compose.yaml");
    let services = &file["services"];
    let (_, files) = told(&services["staffai"]);
    assert_eq!(files, ["../.env"], "keys of providers are not among the settings of the bot");
    let (names, files) = told(&services["litellm"]);
    assert_eq!((names, files), (vec!["LITELLM_MASTER_KEY".to_owned()], vec!["./litellm.env".to_owned()]));
    let (names, files) = told(&services["valkey"]);
    assert_eq!((names.len(), files.len()), (1, 0), "{names:?}");
    let networks = |name: &str| services[name]["networks"].as_array().unwrap().clone();
    assert!(!networks("litellm").contains(&"store".into()) && !networks("valkey").contains(&"outside".into()));
    assert_eq!(file["networks"]["store"]["internal"], true);
    for ignored in [read(".gitignore"), read(".dockerignore")] {
        assert!(ignored.lines().any(|line| line == "deploy/litellm.env"));
    }
    let pod = &deployment()["spec"]["template"]["spec"];
    let mounted = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "secrets").unwrap();
    assert!(mounted["secret"]["items"].is_null(), "each key of the secret is a file");
    let files: BTreeSet<String> = ["deploy/kubernetes/deployment.yaml", "deploy/README.md"]
        .into_iter()
        .flat_map(|path| read(path).split("--from-file=").skip(1).map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|rest| rest.split([' ', '\n', '.', '`']).next().map(str::to_uppercase))
        .collect();
    let secrets: Vec<&String> = files.iter().filter(|name| is_secret(name)).collect();
    let alone = ["DISCORD_BOT_TOKEN", "LITELLM_API_KEY", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN"];
    let mut all: Vec<&str> = alone.into_iter().chain(["REDIS_URL", "STAFFAI_API_KEYS"]).collect();
    all.sort_unstable();
    assert_eq!(secrets, all);
}

#[test]
fn the_store_of_the_compose_file_has_a_password() {
    let services = compose("deploy/compose.yaml")["services"].clone();
    let command = services["valkey"]["command"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    assert!(command.contains("requirepass") && command.contains("valkey-server -"), "{command}");
    assert!(!command.contains("${"), "a password among the arguments can be read by every process: {command}");
    for (service, name) in [("valkey", "REDISCLI_AUTH"), ("staffai", "REDIS_PASSWORD")] {
        let value = services[service]["environment"][name].as_str().unwrap();
        assert!(value.starts_with("${REDIS_PASSWORD:?"), "{service} starts without a password: {value}");
    }
}

#[test]
fn no_process_has_capabilities_or_writes_its_memory_to_a_disk() {
    for path in COMPOSE {
        for (name, service) in compose(path)["services"].as_object().unwrap() {
            assert_eq!(service["cap_drop"][0], "ALL", "{path}: {name}");
            assert_eq!(service["security_opt"][0], "no-new-privileges:true", "{path}: {name}");
            assert_eq!(service["ulimits"]["core"], 0, "{path}: {name}");
        }
    }
    unit_has("LimitCORE", "0");
    unit_has("CapabilityBoundingSet", "");
}

#[test]
fn the_release_checks_sums_and_the_tests_ask_for_known_weaknesses() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    assert_eq!(manifest["profile"]["release"]["overflow-checks"].as_bool(), Some(true));
    let script = read("test");
    assert!(script.contains("check advisories") && script.contains("NOT CHECKED"));
    let image = read("deploy/Dockerfile");
    assert!(image.contains("ARG FEATURES=redis-cluster,redis-sentinel\n"), "the address alone decides");
    assert!(image.contains("deploy/pgo.sh --features \"$FEATURES\""));
    let release = read("deploy/release.sh");
    assert!(release.contains("FEATURES=${FEATURES:-redis-cluster,redis-sentinel}\n"), "as in the image");
    // A build with voice channels links the codec.
    for recipe in [&image, &release] {
        let codec =
            recipe.split_once("case \"$FEATURES\" in *discord-voice*)").unwrap().1.split_once("esac").unwrap().0;
        assert!(codec.contains("libopus-dev") && codec.contains("pkg-config"), "{codec}");
    }
    assert!(image.contains("deploy/root.sh target/pgo/staffai"), "the image has the profile-guided release");
}
