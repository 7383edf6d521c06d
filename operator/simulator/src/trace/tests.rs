//! Every format gives the jobs that its lines say, and nonsense is refused with its line.

use std::path::Path;

use super::*;

fn parse(text: &str) -> Result<Trace, TraceError> {
    super::parse(text, &|| Ok(r#"{"v100": {"('ResNet-18', 2)": {"null": 4.0}}, "k80": {}}"#.to_owned()))
}

fn problem(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_philly_trace_is_sorted_by_time_and_its_queues_can_be_played_alone() {
    let text = "timestamp,duration,num_gpus,gpu_time,cluster\n\
                2017-10-09 07:01:55,66.0,1,66.0,b\n\
                2017-10-09 06:01:55,10.0,4,40.0,a\n\
                2017-10-09 07:01:56,0.0,2,0.0,b\n";
    let trace = parse(text).unwrap();
    let seen: Vec<_> = trace.jobs().iter().map(|job| (job.submit, job.run, job.gpus)).collect();
    assert_eq!(seen, [(0, 10_000, 4), (3_600_000, 66_000, 1), (3_601_000, 1, 2)]);
    assert_eq!(trace.of_queue("b").unwrap().jobs()[0].submit, 0);
    assert!(trace.of_queue("c").unwrap_err().to_string().contains("there are: a, b"));
}

#[test]
fn a_gavel_trace_takes_its_times_from_the_table_beside_it() {
    let trace = parse("ResNet-18\tpython3 x\t-n\t1\t100\t2.5\t2\n").unwrap();
    assert_eq!(trace.jobs()[0].run, 25_000);
    assert_eq!(trace.jobs()[0].gpus, 2);
    assert!(problem("ResNet-50\tx\t-n\t1\t100\t2.5\t2\n").contains("no throughput of ResNet-50 on 2 GPUs"));
}

#[test]
fn an_openb_list_leaves_out_pods_without_gpus() {
    let text = format!(
        "{}\np-0,12000,1,1,460,,LS,Running,100,400,150\np-1,1,1,0,0,,BE,Running,0,4,0\np-2,1,1,8,1000,,BE,Pending,7,9,\n",
        openb::HEADER
    );
    let seen: Vec<_> = parse(&text).unwrap().jobs().iter().map(|j| (j.submit, j.run, j.gpus)).collect();
    assert_eq!(seen, [(0, 2_000, 8), (93_000, 250_000, 1)]);
}

#[test]
fn our_own_format_comes_back_as_it_was_written() {
    let trace = generate(Shape { jobs: 40, gpus: 16, load: 0.8 }, 7);
    assert_eq!(trace.jobs().len(), 40);
    assert_eq!(parse(&own::write_csv(&trace)).unwrap(), trace);
    assert_eq!(parse(&own::write_json_lines(&trace).unwrap()).unwrap(), trace);
}

#[test]
fn nonsense_is_refused_and_says_where() {
    for (text, part) in [
        ("", "no trace that can be read"),
        ("what is this", "no trace that can be read"),
        ("timestamp,duration,num_gpus,gpu_time,cluster\n", "no job"),
        ("timestamp,duration,num_gpus,gpu_time,cluster\nyesterday,1,1,1,a\n", "line 2: timestamp"),
        ("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,NaN,1,1,a\n", "line 2: duration"),
        ("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,1,0,1,a\n", "line 2: num_gpus"),
        ("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,1\n", "2 fields and not 5"),
        ("name,user,queue,submit_s,run_s,gpus,least_gpus\na,b,c,1,1,2,3\n", "more than the 2"),
        ("name,user,queue,submit_s,run_s,gpus,least_gpus\na,b,c,-1,1,2,2\n", "line 2: submit_s"),
        ("name,user,queue,something\n", "line 1: the columns"),
        ("{\"name\":\"a\",\"submit_s\":0,\"run_s\":1e300,\"gpus\":1}\n", "line 1: run_s"),
        ("{\"name\":\"a\",\"submit_s\":0,\"run_s\":1,\"gpus\":99999999999}\n", "line 1: gpus"),
        ("{\"name\":\"a\"\n", "line 1"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(part), "{text:?} gives {problem:?}");
    }
    assert!(read(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file"));
}

#[test]
fn the_pool_for_a_load_is_as_wide_as_the_widest_job() {
    let job = |submit, run, gpus| Job {
        name: String::new(),
        user: String::new(),
        queue: String::new(),
        submit,
        run,
        gpus,
        least: gpus,
    };
    let trace = Trace::new(vec![job(0, 100, 4), job(100, 450, 1)]);
    assert_eq!(trace.gpus_for_load(850), 10, "850 GPU-ms in 100 ms");
    assert_eq!(trace.gpus_for_load(1_000_000), 4);
    assert_eq!(Trace::default().gpus_for_load(850), 1);
}
