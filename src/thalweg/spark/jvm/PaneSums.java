// Sums of rows by keys and pane, made in the JVM before rows are converted for Python.
//
// A generator of Spark's plans: it takes rows and gives none out until it holds many cells, or its
// partition ends. Cells are partial sums that their reader adds up, so it does not matter when they
// leave, nor whether two have the same keys and pane: nothing is kept between micro-batches, and keys
// are compared by their bytes.
//
// A row that leaves has the keys, the start of the pane, the newest time, the number of rows, and the
// sums. Without a pane it tells of rows that no cell holds: how many a filter rejected; or, without
// their number, one whose time is none.
//
// Compiled by Janino, which comes with Spark and knows neither lambdas nor inferred generics.

package thalweg;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.IterableOnce;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;
import scala.runtime.AbstractFunction1;

public final class PaneSums extends UserDefinedGenerator {
    private final Layout layout;
    private transient Cells cells;

    /** Spark copies a generator with its `elementSchema`, `function` and `children`. */
    public PaneSums(StructType schema, scala.Function1 layout, Seq children) {
        super(schema, layout, children);
        this.layout = (Layout) layout;
    }

    /** The cells of rows whose first column is their time, and the next ones their keys. */
    public static Object over(Dataset rows, long[] layout, StructType schema) {
        LogicalPlan plan = rows.queryExecution().analyzed();
        ArrayBuffer unneeded = new ArrayBuffer();
        for (int at = 0; at < plan.output().size(); at++) unneeded.addOne(Integer.valueOf(at));
        PaneSums sums = new PaneSums(schema, new Layout(layout), plan.output());
        Seq output = DataTypeUtils.toAttributes(schema);
        Generate over = new Generate(sums, unneeded.toSeq(), false, Option.empty(), output, plan);
        return Dataset.ofRows((SparkSession) rows.sparkSession(), over);
    }

    public UserDefinedGenerator withNewChildrenInternal(IndexedSeq children) {
        return new PaneSums(elementSchema(), layout, children);
    }

    public IterableOnce eval(InternalRow row) {
        if (cells == null) cells = new Cells(layout, children());
        return cells.take(row);
    }

    public IterableOnce terminate() {
        return cells == null ? Cells.NOTHING : cells.flush();
    }

    public String toString() {
        return "sums by pane";
    }
}

/** What is summed, and by what. A function only because the generator has one: nobody calls it. */
final class Layout extends AbstractFunction1 implements Serializable {
    static final int COUNT = 0, SUM = 1, HIGH = 2;
    static final int NONE = -1;

    final int keys, filter, mostCells;
    final long hop, offset, low, high;
    /** By sum: what it is; the column it is the sum of, and the one that says which rows count. */
    final int[] what, of, where;

    /** Numbers one by one, then three for each sum. */
    Layout(long[] numbers) {
        keys = (int) numbers[0];
        hop = numbers[1];
        offset = numbers[2];
        low = numbers[3];
        high = numbers[4];
        filter = (int) numbers[5];
        mostCells = (int) numbers[6];
        what = new int[(numbers.length - 7) / 3];
        of = new int[what.length];
        where = new int[what.length];
        for (int at = 0; at < what.length; at++) {
            what[at] = (int) numbers[7 + 3 * at];
            of[at] = (int) numbers[8 + 3 * at];
            where[at] = (int) numbers[9 + 3 * at];
        }
    }

    public Object apply(Object nothing) {
        throw new UnsupportedOperationException();
    }
}

/** One column of the rows: whole numbers, times and truth values are read as 64 bits. */
final class Column {
    private static final int LONG = 0, INT = 1, SHORT = 2, BYTE = 3, BOOLEAN = 4, OTHER = 5;
    private final int at, kind;

    Column(int at, DataType type) {
        this.at = at;
        boolean isTime = type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType);
        if (isTime || type.equals(DataTypes.LongType)) kind = LONG;
        else if (type.equals(DataTypes.IntegerType)) kind = INT;
        else if (type.equals(DataTypes.ShortType)) kind = SHORT;
        else if (type.equals(DataTypes.ByteType)) kind = BYTE;
        else if (type.equals(DataTypes.BooleanType)) kind = BOOLEAN;
        else kind = OTHER;
    }

    boolean isThere(InternalRow row) {
        return !row.isNullAt(at);
    }

    boolean isTrue(InternalRow row) {
        return !row.isNullAt(at) && row.getBoolean(at);
    }

    long of(InternalRow row) {
        switch (kind) {
            case LONG: return row.getLong(at);
            case INT: return row.getInt(at);
            case SHORT: return row.getShort(at);
            case BYTE: return row.getByte(at);
            case BOOLEAN: return row.getBoolean(at) ? 1L : 0L;
            default: throw new IllegalStateException("a column that has no numbers");
        }
    }
}

/** The cells of one partition: a table by keys and pane, of limited size. A cell is a run of numbers:
 *  pane, hash, newest time, number of rows, sums; and its keys, unless they vary in length. */
final class Cells {
    static final Iterator NOTHING = scala.collection.Iterator$.MODULE$.empty();
    static final int PANE = 0, HASH = 1, NEWEST = 2, ROWS = 3, SUMS = 4;
    private static final int FEWEST = 1024;

    final Layout layout;
    /** The numbers of a cell, and of these the words of its keys; none where keys vary in length. */
    final int width, keyWords;
    private final UnsafeProjection columnsOf, keysOf;
    private final Column time, filter;
    private final Column[] of, where;

    int count;
    UnsafeRow[] keys;
    long[] numbers;
    private int size;
    private int[] slots;
    /** Rows since the table was empty, and how many are still to leave in small lots. */
    private long taken, passing;
    private long rejected, newestRejected = Long.MIN_VALUE;

    Cells(Layout layout, Seq given) {
        this.layout = layout;
        columnsOf = areColumns(given) ? null : UnsafeProjection.create(given);
        Seq children = columnsOf == null ? given : places(given);
        time = column(children, 0);
        filter = column(children, layout.filter);
        of = new Column[layout.what.length];
        where = new Column[layout.what.length];
        for (int at = 0; at < of.length; at++) {
            of[at] = column(children, layout.of[at]);
            where[at] = column(children, layout.where[at]);
        }
        boolean fixed = true;
        for (int at = 1; at <= layout.keys; at++) {
            fixed &= UnsafeRow.isFixedLength(((Expression) children.apply(at)).dataType());
        }
        keysOf = UnsafeProjection.create((Seq) children.slice(1, 1 + layout.keys));
        keyWords = fixed ? UnsafeRow.calculateBitSetWidthInBytes(layout.keys) / 8 + layout.keys : 0;
        width = SUMS + of.length + keyWords;
        empty();
    }

    /** Constants may have taken the place of columns. */
    private static boolean areColumns(Seq children) {
        for (int at = 0; at < children.size(); at++) {
            if (!(children.apply(at) instanceof BoundReference)) return false;
        }
        return true;
    }

    private static Seq places(Seq children) {
        ArrayBuffer places = new ArrayBuffer();
        for (int at = 0; at < children.size(); at++) {
            places.addOne(new BoundReference(at, ((Expression) children.apply(at)).dataType(), true));
        }
        return places.toSeq();
    }

    private static Column column(Seq children, int at) {
        if (at == Layout.NONE) return null;
        BoundReference child = (BoundReference) children.apply(at);
        return new Column(child.ordinal(), child.dataType());
    }

    private void empty() {
        count = 0;
        taken = 0;
        size = FEWEST;
        slots = new int[2 * size];
        numbers = new long[size * width];
        keys = keyWords > 0 ? null : new UnsafeRow[size];
    }

    /** Add a row; what leaves for it. */
    Iterator take(InternalRow given) {
        InternalRow row = columnsOf == null ? given : columnsOf.apply(given);
        if (!time.isThere(row)) return badTime(null);
        long at = time.of(row);
        if (at <= layout.low || at >= layout.high) return badTime(Long.valueOf(at));
        if (filter != null && !filter.isTrue(row)) {
            rejected++;
            if (at > newestRejected) newestRejected = at;
            return NOTHING;
        }
        Iterator leaving = isFull() ? flush() : NOTHING;
        taken++;
        add(cellOf(keysOf.apply(row), Math.floorDiv(at - layout.offset, layout.hop)), at, row);
        return leaving;
    }

    /** Rows that hardly share cells leave in small lots for a while: a large table would only miss the
     *  processor's caches. */
    private boolean isFull() {
        if (count < (passing > 0 ? Math.min(FEWEST, layout.mostCells) : layout.mostCells)) return false;
        boolean shares = taken >= 2L * count;
        passing = shares ? 0 : passing > 0 ? passing - taken : 16L * layout.mostCells;
        return true;
    }

    /** Where the numbers of the cell begin; a new one is made where there is none. */
    private int cellOf(UnsafeRow key, long pane) {
        int hash = key.hashCode() + (int) (pane ^ (pane >>> 32)) * 0x9E3779B9;
        int slot = slotOf(hash);
        while (slots[slot] != 0) {
            int cell = slots[slot] - 1;
            int base = cell * width;
            if (numbers[base + PANE] == pane && numbers[base + HASH] == hash && hasKey(cell, key)) return base;
            slot = (slot + 1) & (slots.length - 1);
        }
        if (count == size) {
            grow();
            return cellOf(key, pane);
        }
        slots[slot] = count + 1;
        return begin(count++, key, pane, hash);
    }

    private int begin(int cell, UnsafeRow key, long pane, int hash) {
        int base = cell * width;
        numbers[base + PANE] = pane;
        numbers[base + HASH] = hash;
        numbers[base + NEWEST] = Long.MIN_VALUE;
        if (keyWords == 0) keys[cell] = key.copy();
        int words = base + width - keyWords;
        for (int at = 0; at < keyWords; at++) numbers[words + at] = word(key, at);
        return base;
    }

    private boolean hasKey(int cell, UnsafeRow key) {
        if (keyWords == 0) return keys[cell].equals(key);
        int words = (cell + 1) * width - keyWords;
        for (int at = 0; at < keyWords; at++) {
            if (numbers[words + at] != word(key, at)) return false;
        }
        return true;
    }

    private static long word(UnsafeRow key, int at) {
        return Platform.getLong(key.getBaseObject(), key.getBaseOffset() + 8L * at);
    }

    private int slotOf(int hash) {
        return (hash ^ (hash >>> 15)) & (slots.length - 1);
    }

    private void grow() {
        size = 2 * size;
        numbers = Arrays.copyOf(numbers, size * width);
        if (keyWords == 0) keys = (UnsafeRow[]) Arrays.copyOf(keys, size);
        slots = new int[2 * size];
        for (int cell = 0; cell < count; cell++) {
            int slot = slotOf((int) numbers[cell * width + HASH]);
            while (slots[slot] != 0) slot = (slot + 1) & (slots.length - 1);
            slots[slot] = cell + 1;
        }
    }

    private void add(int base, long at, InternalRow row) {
        numbers[base + ROWS]++;
        if (at > numbers[base + NEWEST]) numbers[base + NEWEST] = at;
        for (int sum = 0; sum < of.length; sum++) {
            if (where[sum] != null && !where[sum].isTrue(row)) continue;
            if (of[sum] != null && !of[sum].isThere(row)) continue;
            numbers[base + SUMS + sum] += numberOf(layout.what[sum], of[sum], row);
        }
    }

    /** A sum is kept modulo 2^64, and beside it the sum of upper halves, rounded: together it is exact. */
    private static long numberOf(int what, Column of, InternalRow row) {
        if (what == Layout.COUNT) return 1;
        long value = of.of(row);
        return what == Layout.SUM ? value : (value >> 32) + ((value >> 31) & 1L);
    }

    /** All cells, and how many rows were rejected. */
    Iterator flush() {
        Leaving leaving = new Leaving(this);
        empty();
        if (rejected == 0) return leaving;
        Object[] row = emptyRow();
        row[layout.keys + 1] = Long.valueOf(newestRejected);
        row[layout.keys + 2] = Long.valueOf(rejected);
        leaving.first = new GenericInternalRow(row);
        rejected = 0;
        newestRejected = Long.MIN_VALUE;
        return leaving;
    }

    private Iterator badTime(Long at) {
        Object[] row = emptyRow();
        row[layout.keys + 1] = at;
        return scala.collection.Iterator$.MODULE$.single(new GenericInternalRow(row));
    }

    private Object[] emptyRow() {
        return new Object[layout.keys + 3 + of.length];
    }
}

/** Cells on their way out, a row each; the next one takes the place of the one before. */
final class Leaving extends AbstractIterator {
    InternalRow first;
    private final Layout layout;
    private final UnsafeRow[] keys;
    private final long[] numbers;
    private final int count, width, keyWords;
    private final UnsafeRow key, figures;
    private final JoinedRow row = new JoinedRow();
    private int next;

    Leaving(Cells cells) {
        layout = cells.layout;
        keys = cells.keys;
        numbers = cells.numbers;
        count = cells.count;
        width = cells.width;
        keyWords = cells.keyWords;
        key = room(layout.keys);
        figures = room(3 + layout.what.length);
    }

    private static UnsafeRow room(int columns) {
        int bytes = UnsafeRow.calculateBitSetWidthInBytes(columns) + 8 * columns;
        UnsafeRow row = new UnsafeRow(columns);
        row.pointTo(new byte[bytes], bytes);
        return row;
    }

    public boolean hasNext() {
        return first != null || next < count;
    }

    public Object next() {
        if (first == null) return rowOf(next++);
        InternalRow row = first;
        first = null;
        return row;
    }

    private InternalRow rowOf(int cell) {
        int base = cell * width;
        figures.setLong(0, numbers[base + Cells.PANE] * layout.hop + layout.offset);
        int others = 2 + layout.what.length;
        for (int at = 0; at < others; at++) figures.setLong(1 + at, numbers[base + Cells.NEWEST + at]);
        int words = base + width - keyWords;
        for (int at = 0; at < keyWords; at++) {
            Platform.putLong(key.getBaseObject(), key.getBaseOffset() + 8L * at, numbers[words + at]);
        }
        return row.apply(keyWords > 0 ? key : keys[cell], figures);
    }
}
