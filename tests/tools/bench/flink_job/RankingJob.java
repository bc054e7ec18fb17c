import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The default metrics of each pane and variant, as a Flink user would compute them: sessions by user, then sums by pane and variant.
 *
 * <p>It knows event time, sessions, attribution and grades. It has no limits, no refusals with reasons, no interleaving, no exposures, no
 * feedback without an id, no unique users and no experiments. A list counts once its session has ended. Arguments: the address of Kafka, the
 * topics of lists and of feedback, the topic of the answers, the number of threads, and the address of a folder for checkpoints.
 */
public final class RankingJob {
  static final long GAP = 1_800_000, ATTRIBUTION = 1_800_000, OUT_OF_ORDERNESS = 5_000, LATENESS = 60_000, PANE = 60_000;
  static final int CUTOFF = 10;

  /** One record: a list with its items and variant, or feedback on one item. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static class Event {
    @JsonProperty("user_id") public String user;
    @JsonProperty("impression_id") public String list;
    @JsonProperty("item_id") public String item;
    public long ts;
    public String[] items;
    public String variant;
    public String action;
    public double value;

    @JsonProperty("experiments")
    void takeVariant(Map<String, String> experiments) {
      variant = experiments.get("ranker");
    }

    int grade() {
      return switch (action) {
        case "purchase" -> 3;
        case "watch" -> value >= 30 ? 2 : 0;
        case "click" -> 1;
        default -> 0;
      };
    }
  }

  /** The sums of some lists of one pane and variant. */
  public static class Sums {
    public String variant;
    public long pane, lists, hits, places;
    public double ndcg, mrr, hitRate;

    void add(Sums other) {
      lists += other.lists;
      hits += other.hits;
      places += other.places;
      ndcg += other.ndcg;
      mrr += other.mrr;
      hitRate += other.hitRate;
    }

    static Sums of(Event list, int[] grades) {
      var sums = new Sums();
      sums.variant = list.variant;
      sums.pane = list.ts / PANE * PANE;
      sums.lists = 1;
      int shown = Math.min(CUTOFF, grades.length);
      sums.places = shown;
      double dcg = 0;
      for (int place = 0; place < shown; place++) {
        dcg += grades[place] * DISCOUNTS[place];
        if (grades[place] > 0) {
          if (sums.hits++ == 0) {
            sums.mrr = 1.0 / (place + 1);
            sums.hitRate = 1;
          }
        }
      }
      if (dcg > 0) {
        int[] best = grades.clone();
        Arrays.sort(best);
        double ideal = 0;
        for (int place = 0; place < shown; place++) ideal += best[best.length - 1 - place] * DISCOUNTS[place];
        sums.ndcg = dcg / ideal;
      }
      return sums;
    }

    static final double[] DISCOUNTS = new double[CUTOFF];

    static {
      for (int place = 0; place < CUTOFF; place++) DISCOUNTS[place] = Math.log(2) / Math.log(place + 2);
    }
  }

  /** Keeps a user's events until their session has ended, and scores its lists then. */
  static class Sessions extends KeyedProcessFunction<String, Event, Sums> {
    transient ListState<Event> events;
    transient ValueState<Boolean> waiting;

    @Override
    public void open(OpenContext context) {
      events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", Event.class));
      waiting = getRuntimeContext().getState(new ValueStateDescriptor<>("waiting", Types.BOOLEAN));
    }

    @Override
    public void processElement(Event event, Context context, Collector<Sums> out) throws Exception {
      if (event.ts + LATENESS < context.timerService().currentWatermark()) return;
      events.add(event);
      if (waiting.value() == null) wait(event.ts, context);
    }

    private void wait(long ts, Context context) throws IOException {
      waiting.update(true);
      context.timerService().registerEventTimeTimer(ts + GAP + LATENESS + 1);
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<Sums> out) throws Exception {
      var known = new ArrayList<Event>();
      for (Event event : events.get()) known.add(event);
      known.sort(Comparator.comparingLong(event -> event.ts));
      int begin = 0;
      for (int end = 1; end <= known.size(); end++) {
        boolean apart = end == known.size() || known.get(end).ts - known.get(end - 1).ts > GAP;
        if (!apart) continue;
        if (known.get(end - 1).ts + GAP + LATENESS + 1 > time) break; // this session and those after it are open
        score(known.subList(begin, end), out);
        begin = end;
      }
      var open = known.subList(begin, known.size());
      if (open.isEmpty()) {
        events.clear();
        waiting.clear();
        return;
      }
      events.update(new ArrayList<>(open));
      wait(lastOfFirstSession(open), context);
    }

    private static long lastOfFirstSession(List<Event> open) {
      int last = 0;
      while (last + 1 < open.size() && open.get(last + 1).ts - open.get(last).ts <= GAP) last++;
      return open.get(last).ts;
    }

    private static void score(List<Event> session, Collector<Sums> out) {
      var lists = new HashMap<String, Event>();
      var grades = new HashMap<String, int[]>();
      for (Event event : session) {
        if (event.items != null && lists.putIfAbsent(event.list, event) == null) grades.put(event.list, new int[event.items.length]);
      }
      for (Event event : session) {
        if (event.items != null) continue;
        Event list = lists.get(event.list);
        if (list == null || event.ts < list.ts || event.ts > list.ts + ATTRIBUTION) continue;
        int place = Arrays.asList(list.items).indexOf(event.item);
        if (place >= 0) grades.get(event.list)[place] = Math.max(grades.get(event.list)[place], event.grade());
      }
      for (Event list : lists.values()) out.collect(Sums.of(list, grades.get(list.list)));
    }
  }

  /** Adds up the sums of one pane and variant, and sends them on each time event time goes on. */
  static class Panes extends KeyedProcessFunction<String, Sums, String> {
    transient ValueState<Sums> known;
    transient ValueState<Boolean> waiting;

    @Override
    public void open(OpenContext context) {
      known = getRuntimeContext().getState(new ValueStateDescriptor<>("sums", Sums.class));
      waiting = getRuntimeContext().getState(new ValueStateDescriptor<>("waiting", Types.BOOLEAN));
    }

    @Override
    public void processElement(Sums more, Context context, Collector<String> out) throws Exception {
      Sums sums = known.value();
      if (sums != null) more.add(sums);
      known.update(more);
      if (waiting.value() == null) {
        waiting.update(true);
        context.timerService().registerEventTimeTimer(context.timerService().currentWatermark() + 1);
      }
    }

    @Override
    public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
      waiting.clear();
      Sums sums = known.value();
      out.collect(
          String.format(
              java.util.Locale.ROOT,
              "{\"variant\":\"%s\",\"pane\":%d,\"lists\":%d,\"hits\":%d,\"places\":%d,\"ndcg\":%s,\"mrr\":%s,\"hit_rate\":%s}",
              sums.variant, sums.pane, sums.lists, sums.hits, sums.places, sums.ndcg, sums.mrr, sums.hitRate));
    }
  }

  static class Reading extends AbstractDeserializationSchema<Event> {
    private transient ObjectReader reader;

    @Override
    public void open(InitializationContext context) {
      reader = new ObjectMapper().readerFor(Event.class);
    }

    @Override
    public Event deserialize(byte[] value) throws IOException {
      return reader.readValue(value);
    }
  }

  public static void main(String[] arguments) throws Exception {
    String kafka = arguments[0], answers = arguments[3];
    var settings = new Configuration();
    settings.setString("state.backend.type", "hashmap");
    settings.setString("execution.checkpointing.interval", "5 s");
    settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    settings.setString("execution.checkpointing.dir", arguments[5]);
    settings.setString("restart-strategy.type", "none");
    var environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    environment.setParallelism(Integer.parseInt(arguments[4]));
    environment.getConfig().enableObjectReuse();
    var source =
        KafkaSource.<Event>builder()
            .setBootstrapServers(kafka)
            .setGroupId(answers)
            .setTopics(arguments[1], arguments[2])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new Reading())
            .build();
    var sink =
        KafkaSink.<String>builder()
            .setBootstrapServers(kafka)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(answers)
            .setProperty("transaction.timeout.ms", "600000")
            .setRecordSerializer(
                KafkaRecordSerializationSchema.<String>builder()
                    .setTopic(answers)
                    .setValueSerializationSchema(new SimpleStringSchema())
                    .build())
            .build();
    var times =
        WatermarkStrategy.<Event>forBoundedOutOfOrderness(Duration.ofMillis(OUT_OF_ORDERNESS)).withTimestampAssigner((event, ts) -> event.ts);
    environment
        .fromSource(source, times, "events")
        .keyBy(event -> event.user)
        .process(new Sessions())
        .keyBy(sums -> sums.variant + " " + sums.pane)
        .process(new Panes())
        .sinkTo(sink);
    environment.execute("ranking");
  }
}
